import { afterEach, expect, test, vi } from 'vitest'
import { closeAfterTest } from '../support/test-server.ts'

const ROUTE = new URL('../../packages/create-bureau/templates/nextjs/app/agents/[...path]/route.ts', import.meta.url)

type Route = { readonly POST: ((request: Request) => Promise<Response>) & { readonly close: () => Promise<void> } }

afterEach(() => vi.unstubAllEnvs())

async function statusAt(host: string, serverUrl: string): Promise<number> {
  vi.stubEnv('SERVER_URL', serverUrl)
  vi.resetModules()
  const { POST } = (await import(ROUTE.href)) as Route
  closeAfterTest(() => POST.close())
  const url = `https://${host}/agents/support/get_response`
  const headers = { host, origin: `https://${host}`, 'content-type': 'application/json' }
  const response = await POST(new Request(url, { method: 'POST', headers, body: '{"message":"Hello"}' }))
  return response.status
}

test('the route of the Next.js template answers under the address in SERVER_URL', async () => {
  expect(await statusAt('localhost', '')).toBe(200)
  expect(await statusAt('app.example.com', '')).toBe(403)
  expect(await statusAt('app.example.com', 'https://app.example.com/agents')).toBe(200)
})
