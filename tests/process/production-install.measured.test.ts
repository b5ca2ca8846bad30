import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, lstatSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { compileAndPack } from '../../scripts/pack.ts'

const MAX_INSTALLED_MB = 44
/** Without source maps and type declarations, which no server reads. The console and the documents are one of them. */
const MAX_TRIMMED_MB = 36
const MAX_PACKAGES = 105
const MAX_IDLE_MB = 140
/** A machine that does other things at the same time is given four times what a quiet one needs. */
const MAX_START_MS = 2_000
/** CPU time in comparison with loading the three largest libraries alone, since a machine is not equally fast at all hours. It is 2.5. */
const MAX_START_TO_LIBRARIES = 3.5
const LIBRARIES = `
await Promise.all(['fastify', 'undici', 'zod'].map((name) => import(name)))
const { user, system } = process.cpuUsage()
console.log((user + system) / 1000)
`

const PACKAGES = ['protocol', 'framework', 'runtime', 'faces', 'server']
const SDK = ['@openai/agents', '@openai/agents-realtime']
const MODULES = path.resolve(import.meta.dirname, '../../node_modules')

const run = promisify(execFile)

/** Not installed unless somebody needs them. */
const OPTIONAL = [
  '@redis/client',
  'openai',
  '@modelcontextprotocol/client',
  '@modelcontextprotocol/server',
  '@openai/agents-core',
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
const SHARED = ['fastify', 'pino', 'undici', 'zod', ...PACKAGES.map((name) => `@bureau/${name}`)]

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

/** What an application writes that takes everything from Bureau. */
const OURS = `
import { Agency, Agent, ask, type RunContext, tool } from '@bureau/framework'
import { assistantMessage, functionCall, ScriptedModel } from '@bureau/framework/testing'
import type { ServerTool } from '@bureau/server'
import { z } from 'zod'

const look = tool({
  name: 'look_up',
  description: 'Looks something up.',
  parameters: z.object({ what: z.string() }),
  execute: ({ what }) => 'seen: ' + what,
})
const model = new ScriptedModel([
  [functionCall('look_up', { what: 'x' }, { callId: 'call_1' })],
  [assistantMessage('done')],
])
const instructions = ({ context }: RunContext): string => 'I am ' + context.agent
const entryPoint = new Agent({ name: 'A', instructions, model, tools: [look] })
const served: readonly ServerTool[] = [look]
const { output } = await ask(new Agency({ entryPoint }), 'hello')
console.log(JSON.stringify({ output, served: served.length, seen: JSON.stringify(model.lastCall?.request.input).includes('seen: x') }))
`

/** The same with objects of the agents SDK that it has installed itself. */
const THEIRS = `
import * as sdk from '@openai/agents'
import { RealtimeAgent, RealtimeSession } from '@openai/agents-realtime'
import * as bureau from '@bureau/framework'
import { functionCall, ScriptedModel } from '@bureau/framework/testing'
import type { ServerTool } from '@bureau/server'
import { z } from 'zod'

const look = sdk.tool<z.ZodObject<{ what: z.ZodString }>, bureau.AgencyContext>({
  name: 'look_up',
  description: 'Looks something up.',
  parameters: z.object({ what: z.string() }),
  execute: ({ what }, context) => context?.context.agent + ' has seen: ' + what,
})
const model = new ScriptedModel([[functionCall('transfer_to_B', {}, { callId: 'call_0' })]])
const server: bureau.ToolServer = new sdk.MCPServerStreamableHttp({ name: 'remote', url: 'http://127.0.0.1:9/' })
const third = new bureau.Agent({ name: 'C', instructions: 'x', mcpServers: [server] })
const second = new sdk.Agent<bureau.AgencyContext>({ name: 'B', instructions: 'x', tools: [look] })
const entryPoint = new bureau.Agent({ name: 'A', instructions: 'x', model, handoffs: [second] })
const served: readonly ServerTool[] = [look]
const agency = new bureau.Agency({ entryPoint, agents: [third] })
const { output } = await bureau.ask(agency, 'Look up Ada.')

const voice = new RealtimeAgent<bureau.AgencyContext>({ name: 'Voice', instructions: 'x', tools: [look] })
const session = new RealtimeSession<bureau.AgencyContext>(voice, { apiKey: 'none' })
console.log(
  JSON.stringify({
    output,
    served: served.length,
    agents: [...agency.agents.keys()],
    voice: session.currentAgent.name,
  }),
)
`

let folder = ''
const children = new Set<ChildProcess>()

let unreachable = ''

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'bureau-install-'))
  const packed = compileAndPack(path.join(folder, 'tarballs'), { packages: PACKAGES })
  const tarballs = packed.map(({ filename }) => filename)
  writeFileSync(path.join(folder, 'package.json'), '{ "name": "installed", "version": "1.0.0", "type": "module" }')
  writeFileSync(path.join(folder, 'server.mjs'), SERVER)
  writeFileSync(path.join(folder, 'ours.ts'), OURS)
  await install(tarballs)
})

beforeEach((context) => {
  if (unreachable !== '') context.skip(unreachable)
})

afterEach(async () => {
  for (const child of children) await stop(child)
})

afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

async function install(packages: readonly string[]): Promise<void> {
  const options = ['--omit=dev', '--prefer-offline', '--no-audit', '--no-fund']
  await run('npm', ['install', ...options, ...packages], { cwd: folder }).catch((error: Error) => {
    if (process.env['CI'] || !/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT/.test(error.message)) throw error
    unreachable = 'the package registry cannot be reached'
  })
}

/** What a program of the application prints. */
async function node(...args: readonly string[]): Promise<string> {
  const { stdout } = await run(process.execPath, args, { cwd: folder, env: { PATH: process.env['PATH'] } })
  return stdout
}

/** What the compiler says of a program of the application. */
async function typeErrors(file: string): Promise<string> {
  const types = ['--types', 'node', '--typeRoots', path.join(MODULES, '@types'), '--skipLibCheck']
  const options = ['--noEmit', '--strict', '--target', 'es2024', '--module', 'nodenext', ...types]
  const failed = (error: { stdout: string }): { stdout: string } => error
  const { stdout } = await run(path.join(MODULES, '.bin/tsc'), [...options, file], { cwd: folder }).catch(failed)
  return stdout
}

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

/** The CPU time of a process that loads the largest libraries of the server and nothing else. */
async function librariesCpuMs(): Promise<number> {
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', LIBRARIES], { cwd: folder })
  return Number(stdout)
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
    const libraries: number[] = []
    for (let round = 0; round < 8; round++) {
      libraries.push(await librariesCpuMs())
      starts.push(await start())
      if (round < 7) await stop(starts.at(-1)!.child)
    }
    const status = readFileSync(`/proc/${starts.at(-1)!.child.pid}/status`, 'latin1')
    const idleMb = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024

    expect(Math.min(...starts.map(({ startMs }) => startMs))).toBeLessThan(MAX_START_MS)
    const cpuMs = Math.min(...starts.map((each) => each.cpuMs))
    expect(cpuMs / Math.min(...libraries)).toBeLessThan(MAX_START_TO_LIBRARIES)
    expect(idleMb).toBeLessThan(MAX_IDLE_MB)
  })

  test('answers with the demo model, and shows its API with its own files', async () => {
    const { url } = await start()
    const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"message":"hello"}' }

    const answer = await fetch(`${url}/demo/get_response`, post)
    const assets = ['swagger-ui-bundle.js', 'swagger-ui.css', 'redoc.standalone.js'].map(async (name) => {
      const response = await fetch(`${url}/docs/assets/${name}`)
      return { status: response.status, isLong: (await response.text()).length > 100_000 }
    })

    expect(answer.status).toBe(200)
    expect(await answer.json()).toMatchObject({ response: expect.any(String) })
    expect(await Promise.all(assets)).toEqual(assets.map(() => ({ status: 200, isLong: true })))
  })

  test.each(['gzip', 'identity'])('shows its console to clients that accept %s', async (accepted) => {
    const { url } = await start()
    const ask = async (name: string) => {
      const response = await fetch(`${url}/console/${name}`, { headers: { 'accept-encoding': accepted } })
      return { encoding: response.headers.get('content-encoding') ?? 'identity', text: await response.text() }
    }

    const page = await ask('')
    const [, script] = /src="\.\/(assets\/[^"]+)"/.exec(page.text)!
    const code = await ask(script!)

    expect([page.encoding, code.encoding]).toEqual([accepted, accepted])
    expect(code.text).toContain('import')
  })

  test('carries its documents: every page that llms.txt lists', async () => {
    const { url } = await start()
    const list = await (await fetch(`${url}/llms.txt`)).text()
    const pages = [...list.matchAll(/\]\((guide\/[^)]+)\)/g)].map(([, link]) => `${url}/${link}`)
    const statuses = await Promise.all(pages.map(async (page) => (await fetch(page)).status))

    expect(pages.length).toBeGreaterThan(20)
    expect(pages.filter((_page, index) => statuses[index] !== 200)).toEqual([])
  })

  test('stops with the command to type when an option needs a package that is not there', async () => {
    const needs: [Wanted, string][] = [
      [{ options: { enableRealtime: true } }, 'npm install @openai/agents-realtime'],
      [{ options: { tracing: true } }, 'npm install @opentelemetry/sdk-trace@3'],
      [{ env: { REDIS_URL: 'redis://127.0.0.1:6379' } }, 'npm install @redis/client@6'],
    ]
    for (const [wanted, command] of needs) await expect(start(wanted)).rejects.toThrow(command)
  })

  test('fails a run with the command to type when its model needs a package that is not there', async () => {
    const { url } = await start({ model: 'thirdparty/anthropic/claude-sonnet-4-5', env: { ANTHROPIC_API_KEY: 'x' } })
    const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"message":"hello"}' }

    const answer = await fetch(`${url}/demo/get_response`, post)

    expect(answer.status).toBe(500)
    expect(await answer.text()).toMatch(/npm install @ai-sdk\/anthropic@\^\d/)
  })
})

describe('the installed framework', () => {
  test.each([
    "new MCPServerStdio({ command: 'x' })",
    "new MCPServerStreamableHttp({ url: 'http://127.0.0.1:9/' })",
    "new MCPServerOAuth({ name: 'x', url: 'http://127.0.0.1:9/' })",
  ])('says what to install where a tool server is declared: %s', async (declared) => {
    const program = `import { MCPServerOAuth, MCPServerStdio, MCPServerStreamableHttp } from '@bureau/framework'; ${declared}`

    const failure = node('--input-type=module', '--eval', program)

    await expect(failure).rejects.toThrow('npm install @modelcontextprotocol/client@^2')
  })

  test('runs agents and tools, and is declared to the compiler', async () => {
    expect(await typeErrors('ours.ts')).toBe('')
    expect(JSON.parse(await node('ours.ts'))).toEqual({
      output: 'done',
      served: 1,
      seen: true,
    })
  })

  test('is known to the compiler as what it is: a wrong option is an error', async () => {
    const wrong = "new Agent({ name: 'A', instructions: 'x', modelSettings: { temperature: 'warm' } })"
    writeFileSync(path.join(folder, 'wrong.ts'), `import { Agent } from '@bureau/framework'\n${wrong}\n`)

    expect(await typeErrors('wrong.ts')).toContain("Type 'string' is not assignable to type 'number'")
  })

  test('can be required from CommonJS', async () => {
    const program = "console.log(typeof require('@bureau/server').runServer, typeof require('@bureau/framework').ask)"

    expect(await node('--eval', program)).toBe('function function\n')
  })
})

describe('an application that installs the agents SDK too', () => {
  beforeAll(async () => {
    writeFileSync(path.join(folder, 'theirs.ts'), THEIRS)
    if (unreachable === '') await install(SDK)
  })

  test('uses its tools, agents, tool servers and voices beside ours', async () => {
    expect(await typeErrors('theirs.ts')).toBe('')
    expect(JSON.parse(await node('theirs.ts'))).toEqual({
      output: 'B has seen: Ada',
      served: 1,
      agents: ['A', 'B', 'C'],
      voice: 'Voice',
    })
  })

  test('keeps its programs that take everything from the framework', async () => {
    expect(await typeErrors('ours.ts')).toBe('')
    expect(JSON.parse(await node('ours.ts'))).toMatchObject({ seen: true })
  })
})

describe('beside what its user has', () => {
  type Peers = { readonly peerDependencies?: Readonly<Record<string, string>> }

  /** The optional packages at the oldest versions that ours allow. */
  function oldestPeers(): Record<string, string> {
    const files = [...PACKAGES, 'react'].map((name) => path.resolve(import.meta.dirname, `../../packages/${name}`))
    const ranges = files.flatMap((file) => {
      const { peerDependencies = {} } = JSON.parse(readFileSync(path.join(file, 'package.json'), 'utf8')) as Peers
      return Object.entries(peerDependencies)
    })
    return Object.fromEntries(ranges.map(([name, range]) => [name, oldestOf(range)]))
  }

  const oldestOf = (range: string): string => {
    const [major = '', minor = '0', patch = '0'] = /\d+(?:\.\d+)*/.exec(range)![0].split('.')
    return `${major}.${minor}.${patch}`
  }

  const PREVIOUS_AI = ((): string => {
    const { version } = JSON.parse(readFileSync(path.join(MODULES, 'ai/package.json'), 'utf8')) as { version: string }
    return version.replace(/\d+$/, (patch) => String(Number(patch) - 1))
  })()

  test.each([
    ['the oldest packages that it allows', oldestPeers()],
    ['the AI SDK of the patch before', { ai: PREVIOUS_AI }],
  ])('npm takes %s', async (_title, theirs) => {
    const project = mkdtempSync(path.join(folder, 'beside-'))
    const packed = compileAndPack(path.join(folder, 'all'), { packages: [...PACKAGES, 'client', 'react'] })
    const ours = packed.map(({ name, filename }) => [name, `file:${filename}`])
    const dependencies = { ...Object.fromEntries(ours), react: '^19.0.0', ...theirs }
    writeFileSync(path.join(project, 'package.json'), JSON.stringify({ private: true, dependencies }))
    // The versions are chosen as in an install; nothing is downloaded but the lists of them.
    await run('npm', ['install', '--package-lock-only', '--prefer-offline', '--no-audit'], { cwd: project })

    const { packages } = JSON.parse(readFileSync(path.join(project, 'package-lock.json'), 'utf8')) as {
      packages: Readonly<Record<string, { readonly version?: string }>>
    }
    const chosen = Object.keys(theirs).map((name) => [name, packages[`node_modules/${name}`]?.version])
    expect(Object.fromEntries(chosen)).toEqual(theirs)
  })
})
