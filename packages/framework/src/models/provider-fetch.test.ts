import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { Agent } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { providerFetch } from './provider-fetch.ts'

test('an endless refusal of a provider is not read to its end, which never comes', async () => {
  const server = createServer((_request, response) => {
    const endless = Readable.from(Array.from({ length: 1_000 }, () => Buffer.alloc(65_536, 'x')))
    endless.pipe(response.writeHead(400, { 'content-type': 'application/json' }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const dispatcher = new Agent()
  onTestFinished(async () => {
    await dispatcher.destroy()
    server.closeAllConnections()
    server.close()
  })
  const fetch = providerFetch(dispatcher)
  const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  expect(answer.status).toBe(400)
  await expect(answer.text()).rejects.toThrow('The server sent more than 1048576 bytes.')
})
