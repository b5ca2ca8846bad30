import { once } from 'node:events'
import { globSync } from 'node:fs'
import { get, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { soloAgency, startTestServer } from '../support/test-server.ts'

/** A path that is sent as it is written: `fetch` would resolve its dots. */
async function getRaw(url: string, path: string): Promise<{ status: number; body: string }> {
  const { hostname, port } = new URL(url)
  const [response] = (await once(get({ hostname, port, path, agent: false }), 'response')) as [IncomingMessage]
  return { status: response.statusCode!, body: await text(response) }
}

const linksOf = (page: string): string[] => [...page.matchAll(/\]\((?![a-z]+:|#)([^)#]+)/g)].map(([, link]) => link!)

test('/llms.txt lists every page of docs/ with a sentence about it', async () => {
  const server = await startTestServer({ agencies: soloAgency() })

  const { status, headers, text: list } = await server.get('/llms.txt')

  expect(status).toBe(200)
  expect(headers.get('content-type')).toBe('text/plain; charset=utf-8')
  expect(list).toMatch(
    /^# Bureau\n\n> .+\n\nStart with .+\n\n## Writing agencies\n\n- \[Agencies\]\(guide\/agencies\.md\): agents, tools/,
  )
  const pages = globSync('docs/*.md').map((file) => file.replace('docs/', 'guide/'))
  expect(pages.filter((page) => page !== 'guide/README.md' && !list.includes(`](${page}): `))).toEqual([])
})

test('/guide leads to the page that lists the others, also below a prefix', async () => {
  const server = await startTestServer({ agencies: soloAgency() })

  const answer = await fetch(`${server.url}/guide`, { redirect: 'manual' })

  expect([answer.status, answer.headers.get('location')]).toEqual([302, 'guide/README.md'])
  expect((await (await fetch(`${server.url}/guide`)).text()).slice(0, 2)).toBe('# ')
})

test('every page and every link between pages and examples leads to a document', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  const read = new Map<string, string>()
  const missing: string[] = []
  const follow = async (path: string, from: string): Promise<void> => {
    if (read.has(path)) return
    read.set(path, '')
    const { status, headers, text: page } = await server.get(path)
    const isText =
      headers.get('content-type') === (path.endsWith('.md') ? 'text/markdown' : 'text/plain') + '; charset=utf-8'
    if (status !== 200 || !isText) missing.push(`${path}, a link of ${from}`)
    read.set(path, page)
    const links = path.endsWith('.md') ? linksOf(page) : []
    const next = links.map((link) => new URL(link, `http://server${path}`).pathname)
    for (const target of next.filter((name) => /\.(md|ts)$|^\/guide\/deploy\//.test(name))) await follow(target, path)
  }

  await follow('/guide/README.md', 'this test')
  for (const link of linksOf((await server.get('/llms.txt')).text)) await follow(`/${link}`, '/llms.txt')

  expect(missing).toEqual([])
  expect(read.get('/guide/README.md')).toContain('](examples/README.md)')
  expect(read.get('/guide/examples/08-custom-model.ts')).toContain('import')
  expect(read.has('/guide/ARCHITECTURE.md')).toBe(true)
  expect(read.get('/guide/deploy/Dockerfile')).toContain('FROM')
})

test('the guide needs the token like all documents, unless they are public', async () => {
  const env = { APP_TOKEN: 'secret' }
  const closed = await startTestServer({ agencies: soloAgency(), env })
  const open = await startTestServer({ agencies: soloAgency(), env, publicDocs: true })

  for (const path of ['/llms.txt', '/guide/streams.md']) {
    expect((await closed.get(path)).status).toBe(401)
    expect((await closed.get(path, { authorization: 'Bearer secret' })).status).toBe(200)
    expect((await open.get(path)).status).toBe(200)
  }
})

test.each([
  '/guide/../package.json',
  '/guide/../../package.json',
  '/guide/..%2fpackage.json',
  '/guide/%2e%2e/package.json',
  '/guide/docs/../../package.json',
  '/guide//etc/passwd',
  '/guide/%2fetc%2fpasswd',
  '/guide/..%5cpackage.json',
  '/guide/decisions',
  '/guide/README.md%00.ts',
  '/guide/',
])('404 for %s: only documents of the list are read', async (path) => {
  const server = await startTestServer({ agencies: soloAgency() })

  const { status, body } = await getRaw(server.url, path)

  expect(status).toBe(404)
  expect(JSON.parse(body)).toEqual({ error: expect.any(String), detail: expect.any(String), code: 'route_not_found' })
})
