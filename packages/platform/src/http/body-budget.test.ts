import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { boundBodies } from './body-budget.ts'
import { renderError } from './render-error.ts'

test('bodies that are still on their way share a bound, and give it back when they have arrived or broken off', async () => {
  const app = fastify({ bodyLimit: 100 })
  onTestFinished(() => app.close())
  boundBodies(app, 100)
  app.setErrorHandler((error: Error, request, reply) => renderError(error, request, reply))
  app.post('/', async () => 'ok')
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const send = (): Promise<number> =>
    fetch(`http://127.0.0.1:${port}/`, {
      method: 'POST',
      body: '"x"'.padEnd(60),
      headers: { 'content-type': 'application/json' },
    }).then(({ status }) => status)

  const slow = connect(port, '127.0.0.1')
  slow.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n"')
  await expect.poll(send).toBe(503)
  slow.destroy()
  await expect.poll(send).toBe(200)
  expect([await send(), await send()]).toEqual([200, 200])
})
