import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import path from 'node:path'
import { text as readText } from 'node:stream/consumers'
import { Agent, fetch as undiciFetch } from 'undici'
import { describe, expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { hold, textDeltas } from '../support/fake-provider.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { closeAfterTest, soloAgency, startTestServer, type TestServer, TestStream } from '../support/test-server.ts'

const CONFIG = path.resolve(import.meta.dirname, '../../deploy/nginx.conf')
const NGINX = process.env['TEST_NGINX'] ?? 'nginx'

const isInstalled = spawnSync(NGINX, ['-v']).status === 0
if (!isInstalled)
  console.warn('skipped: deploy/nginx.conf is not tried: there is no nginx (TEST_NGINX names one elsewhere)')

/** Only addresses, ports and the place of the certificate differ from what is deployed. */
async function startNginx(...servers: Pick<TestServer, 'url'>[]): Promise<{ https: string; http: string }> {
  const folder = await temporaryFolder()
  const [https, http] = [await freePort(), await freePort()]
  const key = ['-keyout', 'privkey.pem', '-out', 'fullchain.pem']
  const subject = ['-subj', '/CN=localhost', '-days', '1', '-nodes', '-newkey', 'rsa:2048']
  execFileSync('openssl', ['req', '-x509', ...subject, ...key], { cwd: folder, stdio: 'ignore' })
  const site = readFileSync(CONFIG, 'utf8')
    .replace(/server bureau:8000.*;/, (line) =>
      servers.map(({ url }) => line.replace('bureau:8000', new URL(url).host)).join('\n'),
    )
    .replace('listen 80;', `listen 127.0.0.1:${http};`)
    .replace('listen 443 ', `listen 127.0.0.1:${https} `)
    .replaceAll('/etc/nginx/certificates', folder)
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  const main = `${process.getuid?.() === 0 ? 'user root;' : ''}
pid ${folder}/pid; error_log stderr warn; daemon off;
events {}
http { access_log off; ${places.join(' ')} include ${folder}/site.conf; }`
  writeFileSync(path.join(folder, 'site.conf'), site)
  writeFileSync(path.join(folder, 'nginx.conf'), main)
  mkdirSync(path.join(folder, 'logs'))
  const options = ['-p', folder, '-c', path.join(folder, 'nginx.conf')]
  execFileSync(NGINX, [...options, '-t'], { stdio: 'pipe' })
  const child = spawn(NGINX, options, { stdio: 'ignore' })
  const exited = once(child, 'exit')
  closeAfterTest(async () => {
    child.kill('SIGTERM')
    await exited
  })
  const address = { https: `https://127.0.0.1:${https}`, http: `http://127.0.0.1:${http}` }
  await expect
    .poll(() =>
      fetch(`${address.http}/`, { redirect: 'manual' }).then(
        (answer) => answer.status,
        () => 0,
      ),
    )
    .toBe(301)
  return address
}

const dispatcher = new Agent({ connect: { rejectUnauthorized: false } })

function post(url: string, body: object, { headers = {}, signal }: Sent = {}): Promise<Response> {
  const sent = { 'content-type': 'application/json', ...headers }
  const request = { method: 'POST', headers: sent, body: JSON.stringify(body), dispatcher, signal: signal ?? null }
  return undiciFetch(url, request)
}

type Sent = { readonly headers?: Record<string, string>; readonly signal?: AbortSignal }

const env = { BUREAU_TRUSTED_PROXIES: '127.0.0.1' }

describe.skipIf(!isInstalled)('nginx with deploy/nginx.conf', () => {
  test('hands each token on as it comes', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env })
    const { https } = await startNginx(server)
    const gate = server.provider.gate()
    server.provider.respond(() => textDeltas(['first ', hold(gate), 'last']))

    const stream = new TestStream(await post(`${https}/solo/get_response_stream`, { message: 'Hello' }))
    await stream.untilText('first ')
    expect(stream.text).not.toContain('last')
    gate.release()
    await stream.all()

    expect(stream.outline.at(-1)).toBe('end')
  })

  test('asks a process that was started again at once, when the other one stops', async () => {
    const [first, second] = [await freePort(), await freePort()]
    const { https } = await startNginx({ url: `http://127.0.0.1:${first}` }, { url: `http://127.0.0.1:${second}` })
    const start = async (port: number): Promise<Server> => {
      const server = createServer((_, response) => response.end()).listen(port, '127.0.0.1')
      await once(server, 'listening')
      closeAfterTest(async () => void server.close())
      return server
    }
    const ask = async (): Promise<number> => (await post(https, {})).status

    const other = await start(second)
    expect([await ask(), await ask()]).toEqual([200, 200])
    await start(first)
    other.closeAllConnections()
    other.close()

    expect([await ask(), await ask()]).toEqual([200, 200])
  })

  test('speaks HTTP/2, and sends plain HTTP to HTTPS', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env })
    const { https, http } = await startNginx(server)
    const session = connectHttp2(https, { rejectUnauthorized: false })
    const request = session.request({ ':path': '/healthz' })

    expect(JSON.parse(await readText(request))).toEqual({ status: 'ok' })
    session.close()
    const answer = await fetch(`${http}/docs`, { redirect: 'manual' })
    expect([answer.status, answer.headers.get('location')]).toEqual([301, 'https://127.0.0.1/docs'])
  })

  test('closes its connection when a client leaves, so that the run stops', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env })
    const { https } = await startNginx(server)
    const gate = server.provider.gate()
    server.provider.respond(() => textDeltas(['first ', hold(gate), 'last']))
    const leaving = new AbortController()

    const stream = new TestStream(await post(`${https}/solo/get_response_stream`, { message: 'Hello' }, leaving))
    await stream.untilText('first ')
    leaving.abort()

    await expect(server.provider.waitForAborts(1)).resolves.toBeUndefined()
  })

  test('lets bodies of 30 MiB through', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env })
    const { https } = await startNginx(server)
    server.provider.respond(() => textDeltas(['Long.']))

    const answer = await post(`${https}/solo/get_response`, { message: 'x'.repeat(30 * 1_048_576) })

    expect(await answer.json()).toMatchObject({ response: 'Long.' })
  })

  test('tells the server who the client is, whatever the client says', async () => {
    const limited = { ...env, APP_TOKEN: 'right', BUREAU_WRONG_KEYS_PER_MINUTE: '1' }
    const server = await startTestServer({ agencies: soloAgency(), env: limited })
    const { https } = await startNginx(server)
    const guess = async (address: string): Promise<number> =>
      (
        await post(
          `${https}/solo/get_response`,
          {},
          { headers: { authorization: 'Bearer wrong', 'x-forwarded-for': address } },
        )
      ).status

    expect([await guess('192.0.2.1'), await guess('192.0.2.2'), await guess('192.0.2.3')]).toEqual([401, 429, 429])
  })
})
