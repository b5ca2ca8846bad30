import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, lstatSync, mkdtempSync, readFileSync, rmSync, writeFileSync, mkdirSync } from 'node:fs'
import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { compileAndPack } from '../../scripts/pack.ts'
import { type FakeProvider, hold, startFakeProvider, textDeltas } from '../support/fake-provider.ts'
import { LONG_TERM, nodeBinary } from '../support/node-binary.ts'
import { TestStream } from '../support/test-server.ts'
import {
  buildImage,
  DISTROLESS_CC_MB,
  type Image,
  newVolume,
  runIn,
  startContainer,
  whyNoContainers,
} from './container.ts'

const MAX_IMAGE_MB = 250
const DEPLOY = path.resolve(import.meta.dirname, '../../deploy')
const run = promisify(execFile)

const why = whyNoContainers()
if (why !== undefined) console.warn(`skipped: deploy/Dockerfile cannot be run here: ${why}`)

const AGENCY = `
import { Agency, Agent } from '@bureau/framework'

export const support = new Agency({ entryPoint: new Agent({ name: 'Helper', instructions: 'Help.' }) })
`

let scratch = ''
let image: Image
let provider: FakeProvider
/** What a deployment has to set. */
let production: Record<string, string>

/** A project as a user has it: installed once, so that it has a lock file, with what does not belong into an image. */
async function makeProject(): Promise<void> {
  const project = path.join(scratch, 'project')
  mkdirSync(project)
  const tarballs = compileAndPack(path.join(scratch, 'registry'))
  const dependencies = Object.fromEntries(tarballs.map(({ name, filename }) => [name, `file:${filename}`]))
  const manifest = { name: 'agents', version: '1.0.0', type: 'module', private: true, dependencies }
  writeFileSync(path.join(project, 'package.json'), JSON.stringify(manifest))
  writeFileSync(path.join(project, 'agency.ts'), AGENCY)
  writeFileSync(path.join(project, '.env'), 'APP_TOKEN=secret')
  writeFileSync(path.join(project, 'agency.test.ts'), '')
  const options = ['--package-lock-only', '--omit=dev', '--prefer-offline', '--no-audit', '--no-fund']
  await run('npm', ['install', ...options], { cwd: project })
}

beforeAll(async () => {
  if (why !== undefined) return
  scratch = mkdtempSync(path.join(tmpdir(), 'bureau-image-'))
  await makeProject()
  image = buildImage({
    dockerfile: path.join(DEPLOY, 'Dockerfile'),
    context: path.join(scratch, 'project'),
    registry: path.join(scratch, 'registry'),
    scratch,
    node: await nodeBinary(LONG_TERM),
  })
  provider = await startFakeProvider()
  production = {
    APP_TOKEN: 'server-token',
    OPENAI_API_KEY: 'sk-test',
    OPENAI_BASE_URL: provider.baseUrl,
    PUBLIC_BASE_URL: 'https://agents.example.com',
  }
})

afterAll(async () => {
  await provider?.close()
  if (scratch !== '') rmSync(scratch, { recursive: true, force: true })
})

type Running = {
  readonly child: ChildProcess
  readonly url: string
  readonly volume: string
  readonly env: Record<string, string>
}

/** Resolves when the server says that it is ready. */
async function start(command: readonly string[] | undefined, volume = newVolume(image, scratch)): Promise<Running> {
  const env = { ...production, PORT: String(await freePort()) }
  const child = startContainer(image, { volume, env, ...(command && { command }) })
  onTestFinished(() => void child.kill('SIGKILL'))
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>()
  let output = ''
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      if (/ready at /.test(output)) resolve()
    })
  }
  child.once('exit', (code) => reject(new Error(`the container ended with ${code}:\n${output}`)))
  await ready
  return { child, url: `http://127.0.0.1:${env.PORT}`, volume, env }
}

const HEADERS = { 'content-type': 'application/json', authorization: 'Bearer server-token' }

const ask = (url: string): Promise<Response> =>
  fetch(`${url}/support/get_response_stream`, { method: 'POST', headers: HEADERS, body: '{"message":"Hello"}' })

describe.skipIf(why !== undefined)('the image of deploy/Dockerfile', () => {
  test('is small, and holds no secrets, tests, npm, shell, source maps or declarations', () => {
    const files = globSync('{app,data,usr,bin,home}/**/*', { cwd: image.root })
    const bytes = files.reduce((sum, file) => sum + lstatSync(path.join(image.root, file)).size, 0)

    expect(bytes / 1e6 + DISTROLESS_CC_MB).toBeLessThan(MAX_IMAGE_MB)
    expect(bytes / 1e6).toBeGreaterThan(100)
    expect(existsSync(path.join(image.root, 'app/agency.ts'))).toBe(true)
    const unwanted = /^app\/(?:\.env|agency\.test\.ts)$|\.map$|\.d\.[cm]?ts$|(?:^|\/)(?:npm|sh|bash)$/
    expect(files.filter((file) => unwanted.test(file))).toEqual([])
    expect(existsSync(path.join(image.root, 'app/.env'))).toBe(false)
  })

  test('serves as a user without rights, on a file system that it cannot write to', async () => {
    const { child, url, volume, env } = await start(undefined)
    const status = readFileSync(`/proc/${child.pid}/status`, 'latin1')

    expect(status).toMatch(/^Uid:\s+65532\s+65532\s+65532\s+65532$/m)
    expect(status).toMatch(/^Groups:\s*$/m)
    expect(status).toMatch(/^CapEff:\s+0+$/m)
    expect(await runIn(image, { volume, env }, image.healthcheck)).toBe(0)
    expect((await fetch(`${url}/support/get_metadata`)).status).toBe(401)
    provider.respond(() => textDeltas(['Good ', 'day.']))
    expect((await new TestStream(await ask(url)).all()).result.new_messages.at(-1).content[0].text).toBe('Good day.')
  })

  test.each([
    ['/app/agency.ts', 'is refused (EROFS)', 'EROFS'],
    ['/x', 'is refused (EROFS)', 'EROFS'],
    ['/data/x', 'succeeds', undefined],
    ['/tmp/x', 'succeeds', undefined],
  ])('a write to %s %s', async (file, _outcome, code) => {
    const write = `let code; try { fs.writeFileSync('${file}', '') } catch (error) { code = error.code } process.exit(code === ${code && `'${code}'`} ? 0 : 1)`

    expect(await runIn(image, { volume: newVolume(image, scratch) }, [image.entrypoint[0]!, '--eval', write])).toBe(0)
  })

  test('its health check fails where nothing listens', async () => {
    const env = { ...production, PORT: String(await freePort()) }

    expect(await runIn(image, { volume: newVolume(image, scratch), env }, image.healthcheck)).toBe(1)
  })

  test('SIGTERM lets a stream end whole, refuses new runs, and ends with exit code 0 well before the grace period', async () => {
    const { child, url, env, volume } = await start(['start', 'agency.ts'])
    const gate = provider.gate()
    provider.respond(() => textDeltas(['Good ', hold(gate), 'night.']))
    const stream = new TestStream(await ask(url))
    await stream.untilText('Good ')

    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await expect.poll(() => runIn(image, { volume, env }, image.healthcheck)).toBe(1)
    expect((await ask(url)).status).toBe(503)
    gate.release()
    await stream.all()

    expect(stream.outline.at(-1)).toBe('end')
    expect(stream.text).toContain('night.')
    expect(await exited).toEqual([0, null])
  })

  test('keeps its records in the volume, for the next container', async () => {
    const first = await start(['start', 'agency.ts'])
    const file = path.join(first.volume, 'credentials.json')
    const { apiKey } = JSON.parse(readFileSync(file, 'utf8')) as { apiKey: string }
    const stopped = once(first.child, 'exit')
    first.child.kill('SIGTERM')
    await stopped

    const second = await start(['start', 'agency.ts'], first.volume)
    const chats = await fetch(`${second.url}/v1/chats`, { headers: { authorization: `Bearer ${apiKey}` } })

    expect(chats.status).toBe(200)
  })

  test('says in its log what a deployment has forgotten to set, and ends with exit code 78', async () => {
    const volume = newVolume(image, scratch)
    const child = startContainer(image, { volume, command: ['start', 'agency.ts'] })
    let output = ''
    child.stderr!.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const [code] = (await once(child, 'close')) as [number]

    expect(code).toBe(78)
    expect(output).toContain('PUBLIC_BASE_URL')
  })
})
