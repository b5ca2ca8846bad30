import { Readable } from 'node:stream'
import { Agent } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { startHttpServer } from '../../../../tests/support/http-server.ts'
import { providerFetch } from './provider-fetch.ts'

test('an endless refusal of a provider is not read to its end, which never comes', async () => {
  const url = await startHttpServer((_request, response) => {
    const endless = Readable.from(Array.from({ length: 1_000 }, () => Buffer.alloc(65_536, 'x')))
    endless.pipe(response.writeHead(400, { 'content-type': 'application/json' }))
  })
  const dispatcher = new Agent()
  onTestFinished(() => dispatcher.destroy())
  const fetch = providerFetch(dispatcher)
  const answer = await fetch(url)
  expect(answer.status).toBe(400)
  await expect(answer.text()).rejects.toThrow('The server sent more than 1048576 bytes.')
})
