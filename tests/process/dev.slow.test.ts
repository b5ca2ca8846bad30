import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { closeAfterTest } from '../support/test-server.ts'

const BIN = fileURLToPath(new URL('../../packages/cli/bin/bureau.mjs', import.meta.url))
const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url))

type Dev = {
  readonly child: ChildProcess
  readonly folder: string
  /** Resolves with the first match in what is printed after the one before. */
  next(pattern: RegExp): Promise<RegExpExecArray>
  /** Saves as an editor does: another file takes the name. */
  replace(file: string, text: string): void
}

/** `bureau dev` in a folder with these files. */
async function dev(
  files: Record<string, string>,
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<Dev> {
  const folder = await temporaryFolder()
  symlinkSync(MODULES, path.join(folder, 'node_modules'))
  const replace = (file: string, text: string): void => {
    const target = path.join(folder, file)
    mkdirSync(path.dirname(target), { recursive: true })
    writeFileSync(`${target}.draft`, text)
    renameSync(`${target}.draft`, target)
  }
  for (const [file, text] of Object.entries(files)) replace(file, text)
  const child = spawn(process.execPath, [BIN, 'dev', ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'], PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  closeAfterTest(async () => {
    child.kill('SIGTERM')
    await exited
  })
  let unread = ''
  let look = (): void => {}
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      unread += chunk.toString()
      look()
    })
  }
  const next = (pattern: RegExp): Promise<RegExpExecArray> =>
    new Promise((resolve, reject) => {
      void exited.then(() => reject(new Error(`it ended:\n${unread}`)))
      look = () => {
        const found = pattern.exec(unread)
        if (!found) return
        look = () => {}
        unread = unread.slice(found.index + found[0].length)
        resolve(found)
      }
      look()
    })
  return { child, folder, next, replace }
}

const READY = /Bureau is ready at ([^\s"]+)/

const agency = (name: string, before = ''): string =>
  `${before}\nimport { Agency, Agent } from '@bureau/framework'\n` +
  `export const ${name} = new Agency({ entryPoint: new Agent({ name: 'Clerk', instructions: 'Help.' }) })\n`

const serves = async (url: string, name: string): Promise<number> => (await fetch(`${url}/${name}/get_metadata`)).status

test('every save starts the server again, also of a file that another one has replaced, and of one that it imports', async () => {
  const { next, replace } = await dev({ 'agency.ts': agency('one') })
  expect(await serves((await next(READY))[1]!, 'one')).toBe(200)

  replace('agency.ts', agency('two'))
  await next(/agency\.ts has changed: starting again/)
  expect(await serves((await next(READY))[1]!, 'two')).toBe(200)

  replace('agency.ts', agency('three', "import './parts/tools.ts'"))
  await next(/agency\.ts cannot be loaded: Cannot find module '.*parts\/tools\.ts'/)
  await next(/Save a file to start again/)
  replace('parts/tools.ts', 'export {}')
  expect(await serves((await next(READY))[1]!, 'three')).toBe(200)

  replace('parts/tools.ts', "console.log('the tools are new')")
  await next(/the tools are new/)
  await next(READY)
})

test('a mistake is shown once, with its place, and the next save starts the server', async () => {
  const { next, replace } = await dev({ 'agency.ts': agency('one') })
  await next(READY)

  replace('agency.ts', `${agency('two')}const wrong = (\n`)
  const [shown] = await next(/agency\.ts cannot be loaded: [^]*Save a file to start again/)
  expect(shown).toContain('agency.ts:4')
  expect(shown).not.toContain('node:internal')

  replace('agency.ts', agency('three'))
  expect(await serves((await next(READY))[1]!, 'three')).toBe(200)
})

test('a file that is not there yet is waited for, and so is .env', async () => {
  const { next, replace } = await dev({})
  await next(/There is no agency\.ts or agency\.js or agency\.mjs here: waiting until it is saved\./)

  replace('agency.ts', agency('one', 'console.log(`model ${process.env.BUREAU_MODEL}`)'))
  await next(/model undefined/)
  await next(READY)
  replace('.env', 'BUREAU_MODEL=first')
  await next(/model first/)
  await next(READY)
  replace('.env', 'BUREAU_MODEL=second')
  await next(/model second/)
  expect(await serves((await next(READY))[1]!, 'one')).toBe(200)
})

test('a misspelt setting of .env is named once at each start', async () => {
  const { next, replace } = await dev({ 'agency.ts': agency('one'), '.env': 'BUREAU_MODLE=demo' })
  const [start] = await next(/[^]*Bureau is ready/)
  expect(start.match(/BUREAU_MODLE: there is no such setting\. Did you mean BUREAU_MODEL\?/g)).toHaveLength(1)

  replace('.env', 'BUREAU_MODEL=demo')
  const [again] = await next(/starting again[^]*Bureau is ready/)
  expect(again).not.toContain('no such setting')
})

test('a named file is waited for in a folder that does not exist either, and a signal ends the waiting', async () => {
  const { next, replace } = await dev({}, ['agents/shop.ts'])
  await next(/There is no agents\/shop\.ts here: waiting until it is saved\. Ctrl-C ends this\.\n/)

  replace('agents/shop.ts', agency('shop'))
  expect(await serves((await next(READY))[1]!, 'shop')).toBe(200)

  const waiting = await dev({}, ['agnecy.ts'])
  await waiting.next(/There is no agnecy\.ts here/)
  waiting.child.kill('SIGTERM')
  const [code] = await once(waiting.child, 'exit')
  expect(code).toBe(0)
})

test('a signal that comes while the server is started again ends it all', async () => {
  const slowToEnd = "process.once('exit', () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000))"
  const { child, next, replace } = await dev({ 'agency.ts': agency('one', slowToEnd) })
  await next(READY)
  replace('agency.ts', agency('two'))
  await next(/agency\.ts has changed: starting again/)

  child.kill('SIGTERM')

  expect(await once(child, 'exit')).toEqual([0, null])
})

const ENDLESS = `
import { tool } from '@bureau/framework'
import { z } from 'zod'
const execute = () => {
  console.log('it never ends')
  for (;;) {}
}
export const tools = [tool({ name: 'loop', description: 'Loops.', parameters: z.object({}), execute })]
`

/** A server of `bureau dev` that notices nothing any more. */
async function stuck(): Promise<Dev> {
  const server = await dev({ 'agency.ts': agency('one', ENDLESS) })
  const [, url] = await server.next(READY)
  const headers = { 'content-type': 'application/json' }
  fetch(`${url}/tool/loop`, { method: 'POST', headers, body: '{}' }).catch(() => {})
  await server.next(/it never ends/)
  return server
}

test('a save replaces a server whose code never returns', async () => {
  const { next, replace } = await stuck()

  replace('agency.ts', agency('two'))

  expect(await serves((await next(READY))[1]!, 'two')).toBe(200)
})

test('a signal ends a server whose code never returns', async () => {
  const { child } = await stuck()

  child.kill('SIGTERM')

  expect(await once(child, 'exit')).toEqual([1, null])
})

/** `dev` never finds that a server takes too long. */
const WITHOUT_DEADLINES = `--import data:text/javascript,${encodeURIComponent(`
  const { setTimeout } = globalThis
  const isDev = process.argv[2] === 'dev'
  globalThis.setTimeout = (work, ms, ...args) => setTimeout(work, isDev && ms >= 2_000 ? 2 ** 31 - 1 : ms, ...args)
`)}`

test('a second Ctrl-C kills a server that does not end, without waiting', async () => {
  const stubborn =
    "process.exit = () => {}\nsetInterval(() => {}, 1_000)\nprocess.on('SIGINT', () => console.log('it goes on'))"
  const { child, next } = await dev({ 'agency.ts': agency('one', stubborn) }, [], { NODE_OPTIONS: WITHOUT_DEADLINES })
  await next(READY)
  child.kill('SIGINT')
  await next(/it goes on/)

  child.kill('SIGINT')

  expect(await once(child, 'exit')).toEqual([1, null])
})

test('--platform serves the platform too, with a first key; its data stays', async () => {
  const { folder, next, replace } = await dev({ 'agency.ts': agency('one') }, ['--platform'])
  const [, first] = await next(READY)
  expect(await serves(first!, 'one')).toBe(200)
  const { apiKey } = JSON.parse(readFileSync(path.join(folder, '.bureau/credentials.json'), 'utf8'))

  replace('agency.ts', agency('two'))
  const [, second] = await next(READY)
  const response = await fetch(`${second}/v1/integrations`, { headers: { authorization: `Bearer ${apiKey}` } })
  const { data } = (await response.json()) as { data: unknown }
  expect(data).toContainEqual(expect.objectContaining({ agencyId: 'two' }))
})

test('the server does not outlive a supervisor that is killed', async () => {
  const { child, next } = await dev({ 'agency.ts': agency('one') })
  const [, url] = await next(READY)
  // Only when the last process that holds it has ended.
  const closed = once(child.stdout!, 'close')

  child.kill('SIGKILL')
  await closed

  await expect(fetch(url!)).rejects.toThrow('fetch failed')
})
