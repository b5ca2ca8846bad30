import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, lstatSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { compile, pack } from '../../scripts/pack.ts'

/** Two thirds are four packages that the agents SDK needs; `openai` alone takes 35 MB. */
const MAX_INSTALLED_MB = 105
/** Without source maps and type declarations, which no server reads. */
const MAX_TRIMMED_MB = 60
const MAX_PACKAGES = 105
const MAX_IDLE_MB = 150
/** A machine that does other things at the same time is given four times what a quiet one needs. */
const MAX_START_MS = 2_000
const MAX_START_CPU_MS = 800

const PACKAGES = ['protocol', 'framework', 'runtime', 'server']

/** Not installed unless somebody needs them. */
const OPTIONAL = [
  '@redis/client',
  '@openai/agents',
  '@openai/agents-openai',
  '@openai/agents-realtime',
  '@openai/agents-extensions',
  '@opentelemetry/sdk-trace',
  '@ai-sdk/anthropic',
  '@aws-sdk/client-s3',
  'ai',
  'swagger-ui-dist',
  'redoc',
]

/** Objects of these meet: there must be one copy of each. */
const SHARED = ['@openai/agents-core', 'fastify', 'pino', 'undici', 'zod', ...PACKAGES.map((name) => `@bureau/${name}`)]

const SERVER = `
import { Agency, Agent, tool } from '@bureau/framework'
import { runServer } from '@bureau/server'
import { z } from 'zod'

const look = tool({
  name: 'look_up',
  description: 'Looks something up.',
  parameters: z.object({ what: z.string() }),
  execute: ({ what }) => what,
})
const model = process.argv[3] ?? 'demo'
const entryPoint = new Agent({ name: 'Assistant', instructions: 'Help.', model, tools: [look] })
const agencies = { demo: new Agency({ entryPoint }) }
const { url } = await runServer({ agencies, host: '127.0.0.1', port: 0, ...JSON.parse(process.argv[2] ?? '{}') })
const { user, system } = process.cpuUsage()
console.log('listening ' + JSON.stringify({ url, cpuMs: (user + system) / 1000 }))
`

let folder = ''
const children = new Set<ChildProcess>()

let unreachable = ''

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'bureau-install-'))
  await compile('packages/server/tsconfig.build.json')
  const tarballs = pack(path.join(folder, 'tarballs'), PACKAGES).map(({ filename }) => filename)
  writeFileSync(path.join(folder, 'package.json'), '{ "name": "installed", "version": "1.0.0", "type": "module" }')
  writeFileSync(path.join(folder, 'server.mjs'), SERVER)
  const options = ['--omit=dev', '--prefer-offline', '--no-audit', '--no-fund']
  await promisify(execFile)('npm', ['install', ...options, ...tarballs], { cwd: folder }).catch((error: Error) => {
    if (process.env['CI'] || !/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT/.test(error.message)) throw error
    unreachable = 'the package registry cannot be reached'
  })
}, 240_000)

beforeEach((context) => {
  if (unreachable !== '') context.skip(unreachable)
})

afterEach(async () => {
  for (const child of children) await stop(child)
})

afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

type Started = { readonly child: ChildProcess; readonly url: string; readonly startMs: number; readonly cpuMs: number }

type Wanted = { readonly options?: object; readonly model?: string; readonly env?: Record<string, string> }

/** The installed server in production mode, run by plain Node. */
async function start({ options = {}, model = 'demo', env = {} }: Wanted = {}): Promise<Started> {
  const startedAt = performance.now()
  const child = spawn(process.execPath, ['server.mjs', JSON.stringify(options), model], {
    cwd: folder,
    env: { PATH: process.env['PATH'], NODE_ENV: 'production', OPENAI_API_KEY: 'sk-none', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.add(child)
  let output = ''
  const listening = Promise.withResolvers<{ url: string; cpuMs: number; startMs: number }>()
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
      const line = /^listening (\{.*\})$/m.exec(output)?.[1]
      if (line) listening.resolve({ ...JSON.parse(line), startMs: performance.now() - startedAt })
    })
  }
  child.once('close', () => listening.reject(new Error(output)))
  return { child, ...(await listening.promise) }
}

async function stop(child: ChildProcess): Promise<void> {
  children.delete(child)
  if (child.exitCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** What files take on the disk, as `du` counts. */
function installedMb(files: string): number {
  const names = globSync(`node_modules/${files}`, { cwd: folder })
  return names.reduce((sum, name) => sum + lstatSync(path.join(folder, name)).blocks * 512, 0) / 1_048_576
}

function manifests(): { readonly name: string; readonly version: string }[] {
  return globSync('node_modules/**/package.json', { cwd: folder }).flatMap((file) => {
    const isRoot = /(?:^|\/)node_modules\/(?:@[^/]+\/)?[^/]+\/package\.json$/.test(file)
    return isRoot ? [JSON.parse(readFileSync(path.join(folder, file), 'utf8'))] : []
  })
}

describe('a production install of @bureau/server', () => {
  test('is small, holds nothing optional, and nothing twice', () => {
    const names = manifests().map(({ name }) => name)

    expect(installedMb('**')).toBeLessThanOrEqual(MAX_INSTALLED_MB)
    expect(installedMb('**') - installedMb('**/*.{map,d.ts,d.mts,d.cts}')).toBeLessThanOrEqual(MAX_TRIMMED_MB)
    expect(names.length).toBeLessThanOrEqual(MAX_PACKAGES)
    expect(names.filter((name) => OPTIONAL.includes(name))).toEqual([])
    expect(names.filter((name, index) => names.indexOf(name) !== index && SHARED.includes(name))).toEqual([])
  })

  test('starts at once and is modest when idle', async () => {
    const starts: Started[] = []
    for (let round = 0; round < 3; round++) {
      starts.push(await start())
      if (round < 2) await stop(starts.at(-1)!.child)
    }
    const status = readFileSync(`/proc/${starts.at(-1)!.child.pid}/status`, 'latin1')
    const idleMb = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024

    expect(Math.min(...starts.map(({ startMs }) => startMs))).toBeLessThan(MAX_START_MS)
    expect(Math.min(...starts.map(({ cpuMs }) => cpuMs))).toBeLessThan(MAX_START_CPU_MS)
    expect(idleMb).toBeLessThan(MAX_IDLE_MB)
  })

  test('answers with the demo model, and shows its API with its own files', async () => {
    const { url } = await start()
    const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"message":"hello"}' }

    const answer = await fetch(`${url}/demo/get_response`, post)
    const assets = ['swagger-ui-bundle.js', 'swagger-ui.css', 'redoc.standalone.js'].map(async (name) => {
      const { status, headers } = await fetch(`${url}/docs/assets/${name}`)
      return { status, isLong: Number(headers.get('content-length')) > 100_000 }
    })

    expect(answer.status).toBe(200)
    expect(await answer.json()).toMatchObject({ response: expect.any(String) })
    expect(await Promise.all(assets)).toEqual(assets.map(() => ({ status: 200, isLong: true })))
  })

  test('stops with the command to type when an option needs a package that is not there', async () => {
    const needs: [Wanted, string][] = [
      [{ options: { enableRealtime: true } }, 'npm install @openai/agents-realtime@0.20.0'],
      [{ options: { tracing: true } }, 'npm install @opentelemetry/sdk-trace@3.1.0'],
      [{ env: { REDIS_URL: 'redis://127.0.0.1:6379' } }, 'npm install @redis/client@6'],
    ]
    for (const [wanted, command] of needs) await expect(start(wanted)).rejects.toThrow(command)
  })

  test('fails a run with the command to type when its model needs a package that is not there', async () => {
    const { url } = await start({ model: 'thirdparty/anthropic/claude-sonnet-4-5', env: { ANTHROPIC_API_KEY: 'x' } })
    const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"message":"hello"}' }

    const answer = await fetch(`${url}/demo/get_response`, post)

    expect(answer.status).toBe(500)
    expect(await answer.text()).toMatch(/npm install .*ai@\d+\.\d+\.\d+ @ai-sdk\/anthropic@\d/)
  })
})
