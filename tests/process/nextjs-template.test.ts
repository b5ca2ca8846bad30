import { afterEach, expect, test, vi } from 'vitest'
import { blocksOf, fileOf } from '../docs/page.ts'
import { closeAfterTest } from '../support/test-server.ts'

const TEMPLATE = new URL('../../packages/create-bureau/templates/nextjs/', import.meta.url)
const ROUTE = new URL('app/agents/[...path]/route.ts', TEMPLATE)

type Handler = ((request: Request) => Promise<Response>) & { readonly close: () => Promise<void> }
type Route = { readonly POST: Handler; readonly GET: Handler }

afterEach(() => vi.unstubAllEnvs())

async function importRoute(): Promise<Route> {
  vi.resetModules()
  const route = (await import(ROUTE.href)) as Route
  closeAfterTest(() => route.POST.close())
  return route
}

async function statusAt(host: string, serverUrl: string): Promise<number> {
  vi.stubEnv('SERVER_URL', serverUrl)
  const { POST } = await importRoute()
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

test('the console has a slash at its end, and the configuration lets Next.js neither take it off nor refuse 127.0.0.1', async () => {
  const { GET } = await importRoute()
  const { status, headers } = await GET(new Request('http://localhost/agents/console'))
  expect([status, headers.get('location')]).toEqual([302, 'console/'])

  const config = (await import(new URL('next.config.mjs', TEMPLATE).href)) as { readonly default: object }
  expect(config.default).toMatchObject({ skipTrailingSlashRedirect: true, allowedDevOrigins: ['127.0.0.1'] })
  const shown = blocksOf('docs/embedding.md').find((block) => fileOf(block) === 'next.config.mjs')
  expect(shown?.text).toContain('skipTrailingSlashRedirect: true')
})
