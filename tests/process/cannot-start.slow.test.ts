import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startBureau } from '../support/bureau-process.ts'
import { closeAfterTest } from '../support/test-server.ts'

const DEMO = fileURLToPath(new URL('../../examples/demo-agency.ts', import.meta.url))
const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url))
const BIN = fileURLToPath(new URL('../../packages/cli/bin/bureau.mjs', import.meta.url))

function newFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-start-'))
  closeAfterTest(async () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Runs a command to its end. What it says on standard error, without the log, is what a user reads. */
function runToEnd(args: readonly string[], env: Record<string, string>, cwd?: string) {
  const { status, stderr } = spawnSync(process.execPath, [BIN, ...args], {
    encoding: 'utf8',
    cwd,
    env: { PATH: process.env['PATH'], PORT: '0', ...env },
    timeout: 180_000,
    killSignal: 'SIGKILL',
  })
  return { status, lines: stderr.trim().split('\n') }
}

/** Connections to it get no answer. */
async function takenPort(): Promise<string> {
  const server = createServer().listen({ host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  closeAfterTest(async () => void server.close())
  return String((server.address() as AddressInfo).port)
}

test.each(['start', 'platform', 'serve', 'dev'])(
  '%s on a taken port says so in one line, ends with 1, makes no database and lets its data folder go',
  async (command) => {
    const port = await takenPort()
    const BUREAU_DATA = newFolder()

    const { status, lines } = runToEnd([command, DEMO, '--port', port], { BUREAU_DATA })

    expect(lines).toEqual([expect.stringMatching(new RegExp(`^Port ${port} is taken: .* with --port`))])
    expect(status).toBe(1)
    expect(readdirSync(BUREAU_DATA)).not.toContain('FORMAT')
    if (command !== 'dev') await startBureau([command, DEMO], { BUREAU_DATA })
  },
)

test.each(['start', 'platform'])('%s with a data folder that cannot be written to says so in one line', (command) => {
  // Root may write everywhere, so the folder is one that nobody can make.
  const file = path.join(newFolder(), 'file')
  writeFileSync(file, '')

  const { status, lines } = runToEnd([command, DEMO], { BUREAU_DATA: path.join(file, 'data') })

  expect(lines).toEqual([expect.stringContaining(`The data folder ${file}/data cannot be used: a part of its path`)])
  expect(lines[0]).toContain('BUREAU_DATA')
  expect(status).toBe(1)
})

// `/proc` refuses new folders as if their place did not exist.
test.runIf(process.platform === 'linux')('platform with a data folder that cannot be made says so in one line', () => {
  const { status, lines } = runToEnd(['platform', DEMO], { BUREAU_DATA: '/proc/bureau' })

  expect(lines).toEqual([
    expect.stringContaining('The data folder /proc/bureau cannot be used: it cannot be made there'),
  ])
  expect(status).toBe(1)
})

test('a damaged data folder is told in one line, and what helps', async () => {
  const whole = newFolder()
  const { child, exited } = await startBureau(['platform', DEMO], { BUREAU_DATA: whole })
  child.kill('SIGTERM')
  expect(await exited).toBe(0)
  const startDamaged = (damage: (folder: string) => void) => {
    const folder = newFolder()
    cpSync(whole, folder, { recursive: true })
    damage(folder)
    return runToEnd(['platform', DEMO], { BUREAU_DATA: folder })
  }
  const noise = Buffer.alloc(8_192, 'noise')

  const control = startDamaged((folder) => writeFileSync(path.join(folder, 'records/global/pg_control'), noise))
  const tables = startDamaged((folder) => {
    const base = path.join(folder, 'records/base')
    for (const name of readdirSync(base, { recursive: true, withFileTypes: true })) {
      if (name.isFile()) writeFileSync(path.join(name.parentPath, name.name), noise)
    }
  })
  const lock = startDamaged((folder) => writeFileSync(path.join(folder, 'lock'), noise))
  const key = startDamaged((folder) => writeFileSync(path.join(folder, 'master.key'), '0'.repeat(64)))
  let withoutKey = ''
  const forgotten = startDamaged((folder) => {
    withoutKey = folder
    rmSync(path.join(folder, 'master.key'))
  })

  for (const { status, lines } of [control, tables]) {
    expect(lines).toEqual([expect.stringMatching(/records cannot be opened: its files are damaged.*bureau restore/)])
    expect(status).toBe(1)
  }
  expect([lock.status, ...lock.lines]).toEqual([1, expect.stringContaining('/lock cannot be locked')])
  expect([key.status, ...key.lines]).toEqual([1, expect.stringContaining('is not the master key of this database')])
  expect([forgotten.status, ...forgotten.lines]).toEqual([
    1,
    `The master key of this database is missing: set PLATFORM_MASTER_KEY to it, or put the file ${withoutKey}/master.key back.`,
  ])
  expect(readdirSync(withoutKey)).not.toContain('master.key')
})

test('a PostgreSQL server that does not answer is told in one line, without its password', () => {
  const env = {
    BUREAU_DATA: newFolder(),
    DATABASE_URL: 'postgres://user:secret-word@127.0.0.1:1/bureau',
    PLATFORM_MASTER_KEY: '0'.repeat(64),
  }

  const { status, lines } = runToEnd(['platform', DEMO], env)

  expect(lines).toEqual([expect.stringMatching(/^DATABASE_URL: PostgreSQL at 127.0.0.1:1 refuses: .*ECONNREFUSED/)])
  expect(lines[0]).not.toContain('secret-word')
  expect(status).toBe(1)
})

test('a PostgreSQL server that accepts the connection and stays silent does not keep a process from ending', async () => {
  const port = await takenPort()
  const DATABASE_URL = `postgres://user@127.0.0.1:${port}/bureau`

  const { status, lines } = runToEnd(['platform', DEMO], { BUREAU_DATA: newFolder(), DATABASE_URL })

  expect(lines).toEqual([`DATABASE_URL: PostgreSQL at 127.0.0.1:${port} refuses: timeout expired.`])
  expect(status).toBe(1)
})

test.each(['.', 'package.json'])('what is no module is told in one line: serve %s', (file) => {
  const { status, lines } = runToEnd(['serve', file], {})

  expect(lines).toEqual([`${file} is no module. Name one that exports an Agency, such as agency.ts.`])
  expect(status).toBe(78)
})

const FRAMEWORK = "import { Agency, Agent, tool } from '@bureau/framework'\n"
const AGENCY = "export const support = new Agency({ entryPoint: new Agent({ name: 'A' }) })\n"

test.each([
  ['', 'agency.ts exports no Agency and no "tools". Write: export const support = new Agency({ … })'],
  [
    `${FRAMEWORK}export const clerk = new Agent({ name: 'A' })`,
    'agency.ts exports no Agency and no "tools". "clerk" is an Agent. Write: export const support = new Agency({ entryPoint: clerk })',
  ],
  [
    'export const make = () => {}',
    'agency.ts exports no Agency and no "tools". "make" is a function. Export what it returns: export const support = await make()',
  ],
  [
    "import { Tool } from '@bureau/framework'\nexport class Count extends Tool {}",
    'agency.ts exports no Agency and no "tools". "Count" is a tool. Write: export const tools = [Count]',
  ],
  [
    "export const count = { type: 'function', name: 'count' }",
    'agency.ts exports no Agency and no "tools". "count" is a tool. Write: export const tools = [count]',
  ],
  [
    'export const support = Promise.resolve()',
    'agency.ts exports no Agency and no "tools". "support" is a Promise. Write: export const support = await …',
  ],
  [
    "export const support = { [Symbol.for('@bureau/framework')]: '/elsewhere' }",
    expect.stringMatching(
      /^agency.ts: "support" is made by another copy of @bureau\/framework, in \/elsewhere; in use is the one in .*packages\/framework\. Install .*"npm dedupe" leaves one copy\.$/,
    ),
  ],
  [`${FRAMEWORK}${AGENCY}export const tools = 'x'`, 'agency.ts: "tools" must be a list of tools.'],
  [
    `${FRAMEWORK}\nexport const one = new Agent({ name: 'A', tools: [() => 'x', 7] as never })`,
    'agency.ts:3: Agent "A": tools.0 is a function. Make it a tool: tool({ name: "…", description: "…", parameters: z.object({ … }), execute: … }).',
    'agency.ts:3: Agent "A": tools.1 is 7, not a tool. Make one by tool({ … }).',
  ],
  [
    "const read = () => {\n  throw new Error('no SHOP_KEY')\n}\nread()",
    'agency.ts cannot be loaded: Error: no SHOP_KEY',
    '    at read (agency.ts:2:9)',
    '    at agency.ts:4:1',
  ],
  ["throw 'no way'", "agency.ts cannot be loaded: it throws 'no way'"],
  [
    "import 'no-package'",
    "agency.ts cannot be loaded: Cannot find package 'no-package' imported from agency.ts. Check the name, or install it: npm install no-package",
  ],
  [
    "import './clerk'",
    "agency.ts cannot be loaded: Cannot find module 'clerk' imported from agency.ts. There is clerk.ts: an import has the whole name of its file.",
  ],
  [
    "import { AgentOptions } from '@bureau/framework'",
    `agency.ts cannot be loaded: The requested module '@bureau/framework' does not provide an export named 'AgentOptions'. Check the name; a type needs "import type".`,
    'agency.ts:1',
    "import { AgentOptions } from '@bureau/framework'",
    expect.stringContaining('^^^'),
  ],
  [
    `${FRAMEWORK}const a = new Agent({ name: 'A', handoffs: [b] })\nconst b = new Agent({ name: 'B' })\n${AGENCY}`,
    expect.stringMatching(/^agency.ts cannot be loaded: ReferenceError: Cannot access 'b' .* connected by the flows/),
    '    at agency.ts:2:45',
  ],
])('a mistake in the module is told with its place: %j', async (text, ...said) => {
  const folder = newFolder()
  symlinkSync(MODULES, path.join(folder, 'node_modules'))
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }')
  writeFileSync(path.join(folder, 'clerk.ts'), '')
  writeFileSync(path.join(folder, 'agency.ts'), text)

  const { status, lines } = runToEnd(['serve'], {}, folder)

  expect({ status, lines }).toEqual({ status: 78, lines: said })
})

test('every command warns of settings that there are not, before it does anything', () => {
  const { lines } = runToEnd(['serve', 'no-such-file.ts'], { BUREAU_MODLE: 'gpt-5' })

  expect(lines).toEqual([
    'BUREAU_MODLE: there is no such setting. Did you mean BUREAU_MODEL?',
    'There is no file no-such-file.ts.',
  ])
})

test.each(['serve', 'dev', 'chat'])('%s says in one line that .env cannot be read', (command) => {
  const folder = newFolder()
  mkdirSync(path.join(folder, '.env')) // as Docker makes of a file that it is to mount and that is not there

  const { status, lines } = runToEnd([command], {}, folder)

  expect({ status, lines }).toEqual({
    status: 78,
    lines: ['The file .env cannot be read: EISDIR: illegal operation on a directory, read.'],
  })
})

test('a backup of a folder without a database is refused, and makes none', () => {
  const BUREAU_DATA = newFolder()

  const { status, lines } = runToEnd(['backup', path.join(BUREAU_DATA, 'copy.tar')], { BUREAU_DATA })

  expect(lines).toEqual([
    `There is no database in ${BUREAU_DATA}. BUREAU_DATA must name the data folder of the platform.`,
  ])
  expect([status, readdirSync(BUREAU_DATA)]).toEqual([78, []])
})

test.each([
  [['restore', 'nowhere.tar'], 78, 'There is no file nowhere.tar.'],
  [
    ['start', DEMO, '--port', 'http'],
    1,
    "error: option '--port <number>' argument 'http' is invalid. Must be a port from 0 to 65535.",
  ],
  [['files', 'copy', '.', 'ftp://host'], 1, 'ftp://host is neither a folder nor the address of a bucket (s3://…).'],
  [
    ['owners', 'create', ' '],
    1,
    "error: command-argument value ' ' is invalid for argument 'name'. Must have 1 to 100 characters.",
  ],
  [['chat', '--url', 'http://'], 1, '--url: http:// names no server.'],
  [['chat', '--url', 'http:///support'], 1, '--url: http:///support names no server.'],
  [['keys', 'list', 'own_1', '--url', 'http://a host'], 1, '--url: http://a host names no server.'],
  [['owners', 'list', '--url', 'host:8000'], 1, '--url: host:8000 must begin with http:// or https://.'],
])('bureau %j ends with %i: %s', (args, code, line) => {
  const { status, lines } = runToEnd(args, { BUREAU_DATA: newFolder(), PLATFORM_OPERATOR_KEY: 'k'.repeat(32) })

  expect({ status, lines }).toEqual({ status: code, lines: [line] })
})
