import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { fastify } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { streamResponse } from './stream-response.ts'

test.each(['before', 'while'])(
  'a client that leaves %s its stream begins: the stream ends, and says so once',
  async (when) => {
    const arrived = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<void>()
    let lost = 0
    let isReturned = false
    async function* chunks(): AsyncGenerator<string, void> {
      try {
        for (;;) yield 'x'.repeat(1_048_576)
      } finally {
        isReturned = true
      }
    }
    const app = fastify({ forceCloseConnections: true })
    app.get('/', async (_request, reply) => {
      arrived.resolve()
      if (when === 'before') await once(reply.raw, 'close')
      const onClientLost = (): void => void lost++
      await streamResponse(reply, { contentType: 'text/plain', chunks: chunks(), keepalive: true, onClientLost })
      ended.resolve()
    })
    onTestFinished(() => app.close())
    await app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = app.server.address() as AddressInfo
    const client = new AbortController()

    const answer = fetch(`http://127.0.0.1:${port}/`, { signal: client.signal })
    await (when === 'before' ? arrived.promise : answer)
    client.abort()
    await answer.catch(() => {})

    await ended.promise
    expect([lost, isReturned]).toEqual([1, when === 'while'])
  },
)
