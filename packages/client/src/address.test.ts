import { expect, test } from 'vitest'
import { freePort } from '../../../tests/support/free-port.ts'
import { type AgencyOptions, createClient } from './client.ts'

test.each([
  [{}, 'url must be an address.'],
  [{ url: 'shop' }, 'url must be an address.'],
  [{ ur: 'http://127.0.0.1:8000/support' }, 'url must be an address.'],
])('%j is refused', (options, problem) => {
  expect(() => createClient(options as unknown as AgencyOptions)).toThrow(problem)
})

test('a server that cannot be reached is named by its host alone, without credentials or query', async () => {
  const port = await freePort()
  const open = createClient({ url: `http://ada:secret@127.0.0.1:${port}/support?key=secret`, retryDelaysMs: [] })

  await expect(open.stream('Hi').result).rejects.toMatchObject({
    code: 'connection_lost',
    message: `127.0.0.1:${port} cannot be reached.`,
  })
})
