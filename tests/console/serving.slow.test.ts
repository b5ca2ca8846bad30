import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { buildConsoleIfOld } from '../../scripts/build-console.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'
import { startPlatform } from '../platform/support/test-platform.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { repositoryFile } from './support/console-page.ts'

/** Of everything that the first page loads, compressed. */
const MAX_FIRST_PAGE_BYTES = 230_000

const addressesIn = (page: string): string[] =>
  [...page.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map(([, name]) => name!)

describe('the files of the console', () => {
  beforeAll(() => buildConsoleIfOld())

  test('the first page takes at most 230 kB', async () => {
    const page = (await repositoryFile('packages/console/dist/index.html')).toString()
    const files = await Promise.all(addressesIn(page).map((name) => repositoryFile(`packages/console/dist/${name}`)))

    const bytes = files.reduce((sum, file) => sum + gzipSync(file, { level: 9 }).length, 0)

    expect(files.length).toBeGreaterThan(1)
    expect(bytes).toBeLessThanOrEqual(MAX_FIRST_PAGE_BYTES)
  })

  test('the page has a strict policy and is asked for anew; its files may be kept and come compressed', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'secret' } })

    const page = await server.get('/console/')
    const asset = await server.get(`/console/${addressesIn(page.text).find((name) => name.endsWith('.js'))}`)

    expect(page.headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self';/,
    )
    expect(page.headers.get('content-security-policy')).not.toContain('unsafe')
    expect(page.headers.get('cache-control')).toBe('no-cache')
    expect(asset.status).toBe(200)
    expect(asset.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    expect(asset.headers.get('content-encoding')).toBe('gzip')
    expect(asset.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
  })

  test.each(['..%2findex.html', '..%2f..%2fpackage.json', 'missing.js', 'index.js%00.css', '.vite'])(
    '404 for assets/%s',
    async (name) => {
      const server = await startTestServer({ agencies: soloAgency() })

      expect((await server.get(`/console/assets/${name}`)).status).toBe(404)
    },
  )

  test('the address without a slash leads to the page, at any prefix', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await fetch(`${server.url}/console?theme=dark`, { redirect: 'manual' })

    expect([answer.status, answer.headers.get('location')]).toEqual([302, 'console/?theme=dark'])
  })

  test('says before anybody signs in what is here, and nothing else', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'secret' } })
    const platform = await startPlatform('pglite')
    closeAfterTest(() => platform.close())

    const alone = await fetch(`${platform.url}/console/server.json`)

    expect((await server.get('/console/server.json')).body).toEqual({
      version: '0.1.0',
      agencies: 'token',
      platform: false,
    })
    expect(await alone.json()).toEqual({ version: '0.1.0', agencies: 'none', platform: true })
    expect((await fetch(`${platform.url}/console/`)).status).toBe(200)
  })

  test('404 when it is switched off', async () => {
    const server = await startTestServer({ agencies: soloAgency(), console: false })

    const answers = await Promise.all(['/console', '/console/', '/console/server.json'].map((path) => server.get(path)))

    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404])
  })
})
