import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { type AgencyOptions, createClient } from './client.ts'
import { platformApi } from './platform-api.ts'

const url = 'http://127.0.0.1:8000/support'

test.each([
  [{}, 'url: must be an http: or https: address.'],
  [{ url: 'shop' }, 'url: must be an http: or https: address.'],
  [{ url: 'ftp://ada:secret@shop.example' }, 'url: must be an http: or https: address.'],
  [{ ur: url }, 'there is no option "ur". Did you mean "url"?'],
  [{ url, retryDelayMs: [] }, 'there is no option "retryDelayMs". Did you mean "retryDelaysMs"?'],
  [{ url, integrationId: 'int_1' }, 'there is no option "integrationId". Did you mean "integration"?'],
  [{ url, apiKey: 'sk-1' }, /there is no option "apiKey"\. Options: url, integration, token, /],
])('%j is refused', (options, problem) => {
  const open = () => createClient(options as unknown as AgencyOptions)

  expect(open).toThrow(problem)
  expect(open).toThrow(/^createClient: /)
  expect(open).not.toThrow(/secret|sk-1/)
})

test('the calls of the platform check theirs in the same way', () => {
  const options = { url, integration: 'int_1', tokn: 'a' }
  expect(() => platformApi(options)).toThrow('platformApi: there is no option "tokn". Did you mean "token"?')
})

test('a connection that could not be made is not one that was lost, and names the host alone', async () => {
  const closed = createServer().listen(0, '127.0.0.1')
  const { port } = await new Promise<{ port: number }>((resolve) => {
    closed.once('listening', () => resolve(closed.address() as { port: number }))
  })
  await new Promise((resolve) => closed.close(resolve))
  const open = createClient({ url: `http://ada:secret@127.0.0.1:${port}/support?key=secret`, retryDelaysMs: [] })

  await expect(open.stream('Hi').result).rejects.toMatchObject({
    code: 'connection_lost',
    message: `127.0.0.1:${port} cannot be reached.`,
  })
})
