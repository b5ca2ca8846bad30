import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, test } from 'vitest'

const SAY = 'console.log(JSON.stringify([process.version, process.execArgv, process.argv.slice(2)]))\n'

/** Makes the first process believe that it is Node 20, which can neither run Bureau nor replace itself. */
const AS_NODE_20 = `--import data:text/javascript,${encodeURIComponent(`
  delete process.env.NODE_OPTIONS
  process.execve = undefined
  Object.defineProperty(process, 'version', { value: 'v20.0.0' })
  Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.0.0' } })
`)}`

const roots: string[] = []
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true })
})

/** A package that holds the real bin file and these files beside it. */
function packageWith(files: Record<string, string>): string {
  const root = realpathSync(mkdtempSync(path.join(tmpdir(), 'bureau-bin-')))
  roots.push(root)
  for (const [name, content] of Object.entries({ 'package.json': '{ "type": "module" }', ...files })) {
    mkdirSync(path.join(root, path.dirname(name)), { recursive: true })
    writeFileSync(path.join(root, name), content)
  }
  mkdirSync(path.join(root, 'bin'))
  copyFileSync(path.join(import.meta.dirname, 'bureau.mjs'), path.join(root, 'bin/bureau.mjs'))
  return root
}

function withPinnedNode(root: string): string {
  const pinned = path.dirname(createRequire(import.meta.url).resolve('node/package.json'))
  mkdirSync(path.join(root, 'node_modules'))
  symlinkSync(pinned, path.join(root, 'node_modules/node'))
  return root
}

function start(root: string, args: readonly string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [path.join(root, 'bin/bureau.mjs'), ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = Promise.all([once(child, 'exit'), text(child.stdout), text(child.stderr)]).then(
    ([[code, signal], out, err]) => ({ code: code as unknown, signal: signal as unknown, out, err }),
  )
  return { child, ended }
}

test('in the repository it runs the sources, with the condition that resolves packages to sources', async () => {
  const root = packageWith({ 'src/main.ts': `const typed: number = 1\nvoid typed\n${SAY}`, 'dist/main.js': 'throw 1' })
  const { code, out } = await start(root, ['start', 'a b']).ended
  expect(code).toBe(0)
  expect(JSON.parse(out)).toEqual([process.version, ['--conditions=@bureau/source'], ['start', 'a b']])
})

test('as a published package it runs dist, without any condition', async () => {
  const { code, out } = await start(packageWith({ 'dist/main.js': SAY }), ['start']).ended
  expect(code).toBe(0)
  expect(JSON.parse(out)).toEqual([process.version, [], ['start']])
})

test('on an older Node it goes on with the Node that npm install brought', async () => {
  const root = withPinnedNode(packageWith({ 'src/main.ts': SAY }))
  const { code, out } = await start(root, ['start'], { NODE_OPTIONS: AS_NODE_20 }).ended
  expect(code).toBe(0)
  expect(JSON.parse(out)).toEqual([process.version, ['--conditions=@bureau/source'], ['start']])
})

test('on an older Node without a newer one beside it, it says what is needed and fails', async () => {
  const root = packageWith({ 'src/main.ts': SAY })
  const { code, out, err } = await start(root, ['start'], { NODE_OPTIONS: AS_NODE_20 }).ended
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toContain('Bureau needs Node.js 24.11.0 or newer; this is v20.0.0.')
})

test.each([
  ['on this Node', {}],
  ['through an older Node', { NODE_OPTIONS: AS_NODE_20 }],
])('exit codes and signals pass %s', async (_name, env) => {
  const wait = "process.on('SIGTERM', () => process.exit(7))\nconsole.log('ready')\nsetInterval(() => {}, 1000)\n"
  const { child, ended } = start(withPinnedNode(packageWith({ 'src/main.ts': wait })), [], env)
  await once(child.stdout, 'data')
  child.kill('SIGTERM')
  expect(await ended).toMatchObject({ code: 7, signal: null })
})

/** It says what it hears, and needs a second to end. */
const SLOW_END = `
  process.on('SIGTERM', () => { console.log('told to stop'); setTimeout(() => process.exit(), 1000) })
  console.log('ready')
  setInterval(() => {}, 1000)
`

/** The shell in which npm runs a script that starts this program, once that is ready; and what is printed then. */
async function startScript(program: string, env: Record<string, string>) {
  // The second command keeps the shell.
  const shell = spawn('sh', ['-c', `"${process.execPath}" bin/bureau.mjs start; true`], {
    cwd: withPinnedNode(packageWith({ 'src/main.ts': program })),
    env: { PATH: process.env['PATH'], npm_lifecycle_event: 'start', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  await once(shell.stdout, 'data')
  return { shell, printed: text(shell.stdout) }
}

describe.each([
  ['on this Node', {}],
  ['through an older Node', { NODE_OPTIONS: AS_NODE_20 }],
])('as the script of npm, %s', (_name, env) => {
  test('it is stopped, once, when a signal has ended the shell alone', async () => {
    const { shell, printed } = await startScript(SLOW_END, env)
    shell.kill('SIGTERM')

    expect(await printed).toBe('told to stop\n')
  })

  test('without a way of its own to stop, it ends', async () => {
    const { shell, printed } = await startScript("console.log('ready')\nsetInterval(() => {}, 1000)\n", env)
    process.kill(-shell.pid!, 'SIGTERM')

    expect(await printed).toBe('')
  })
})

test.each([
  ['', SLOW_END],
  [', while it was busy', `${SLOW_END} Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000)`],
])('as the script of npm, it is not told again when the signal came to all%s', async (_name, program) => {
  const { shell, printed } = await startScript(program, {})
  process.kill(-shell.pid!, 'SIGTERM')

  expect(await printed).toBe('told to stop\n')
})
