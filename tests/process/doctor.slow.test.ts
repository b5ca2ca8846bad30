import { spawnSync } from 'node:child_process'
import { symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startHttpServer } from '../support/http-server.ts'
import { BIN, runBureau } from '../support/bureau-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const DEMO = fileURLToPath(new URL('../../examples/demo-agency.ts', import.meta.url))
const CLAUDE = fileURLToPath(new URL('../support/claude-agency.ts', import.meta.url))
const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url))
const NOBODY = '127.0.0.1:9' // the discard port, where nothing listens

/** What the command says of each subject, and its exit code. */
async function examine(args: readonly string[], env: Record<string, string> = {}) {
  const BUREAU_DATA = path.join(await temporaryFolder(), 'data')
  const { code, out: output } = await runBureau(['doctor', ...args], { BUREAU_DATA, ...env })
  const found = [...output.matchAll(/^(ok|note|FAULT) +(\S+) +(.*)$/gm)]
  return { code, output, found: new Map(found.map(([, state, subject, text]) => [subject, [state, text]])) }
}

/** A file with this text, which may name what the framework exports. */
async function savedModule(text: string): Promise<string> {
  const folder = await temporaryFolder()
  symlinkSync(MODULES, path.join(folder, 'node_modules'))
  const file = path.join(folder, 'agency.ts')
  writeFileSync(file, `import { Agency, Agent } from '@bureau/framework'\n${text}`)
  return file
}

/** A provider that accepts one key. */
async function startProvider(key: string): Promise<string> {
  const url = await startHttpServer((request, response) => {
    const accepted = request.url === '/v1/models' && request.headers.authorization === `Bearer ${key}`
    response.writeHead(accepted ? 200 : 401).end('{}')
  })
  return `${url}/v1`
}

test('a machine that is fit has no fault', async () => {
  const { code, found } = await examine([DEMO], { APP_TOKEN: 'secret' })

  expect(code).toBe(0)
  expect([...found.keys()]).toEqual([
    'Node.js',
    'Agencies',
    'Settings',
    'Address',
    'Token',
    'Model',
    'Redis',
    'Database',
    'Disk',
  ])
  expect(found.get('Agencies')).toEqual(['ok', 'demo'])
  expect(found.get('Model')![0]).toBe('note')
})

test('a key that the provider accepts is fine, another one is a fault', async () => {
  const OPENAI_BASE_URL = await startProvider('right')

  const right = await examine([DEMO], { OPENAI_BASE_URL, OPENAI_API_KEY: 'right', BUREAU_MODEL: 'm-1' })
  const wrong = await examine([DEMO], { OPENAI_BASE_URL, OPENAI_API_KEY: 'sk-wrong' })

  expect(right.found.get('Model')).toEqual(['ok', `m-1 at ${OPENAI_BASE_URL}`])
  expect(wrong.found.get('Model')).toEqual(['FAULT', `${OPENAI_BASE_URL} answers 401: OPENAI_API_KEY is not accepted.`])
  expect(wrong.code).toBe(1)
  expect(wrong.output).not.toContain('sk-wrong')
})

test('a default model of another provider is looked for there, and not at the default one', async () => {
  const ANTHROPIC_BASE_URL = await startProvider('of nobody')
  const env = { BUREAU_MODEL: 'thirdparty/anthropic/claude-x', ANTHROPIC_BASE_URL }

  const withKey = await examine([DEMO], { ...env, ANTHROPIC_API_KEY: 'sk-ant' })
  const away = await examine([DEMO], { ...env, ANTHROPIC_BASE_URL: `http://${NOBODY}/v1`, ANTHROPIC_API_KEY: 'sk-ant' })
  const withBoth = await examine([DEMO], { ...env, OPENAI_BASE_URL: ANTHROPIC_BASE_URL, OPENAI_API_KEY: 'of nobody' })

  const text = `thirdparty/anthropic/claude-x at ${ANTHROPIC_BASE_URL}; whether it accepts the key shows with the first answer`
  expect([withKey.code, withKey.output.match(/ Model /g), withKey.found.get('Model')]).toEqual([
    0,
    [' Model '],
    ['note', text],
  ])
  expect(away.found.get('Model')![1]).toContain('cannot be reached: check ANTHROPIC_BASE_URL and the network.')
  expect(withBoth.output).toContain(`Model       ${ANTHROPIC_BASE_URL}\n`)
  expect(withBoth.output).toMatch(/^FAULT +Model .*There is no API key for anthropic/m)
})

test('a tool that is served beside the agencies is counted', async () => {
  const module = await savedModule(`
    import { tool } from '@bureau/framework'
    import { z } from 'zod'
    export const support = new Agency({ entryPoint: new Agent({ name: 'A', instructions: 'Help.' }) })
    export const tools = [tool({ name: 'look', description: 'Looks.', parameters: z.object({}), execute: () => '' })]
  `)

  const { found } = await examine([module])

  expect(found.get('Agencies')).toEqual(['ok', 'support, 1 tool'])
})

test('an agency file that serve would refuse is a fault, for the same reason', async () => {
  const module = await savedModule(`
    export const mcp = new Agency({ entryPoint: new Agent({ name: 'A', instructions: 'Help.' }) })
    export const tools = [{ name: 'x' }]
  `)

  const { code, found } = await examine([module])

  expect(code).toBe(1)
  expect(found.get('Agencies')).toEqual(['FAULT', 'agencies: "mcp" is the name of a server route; choose another.'])
})

test('each fault of an agency is told once', async () => {
  const module = await savedModule(
    "export const a = new Agency({ entryPoint: new Agent({ name: 'A', instruction: 'Help.' }) })",
  )

  const { output } = await examine([module])

  expect(output.match(/there is no option "instruction"/g)).toHaveLength(1)
})

test('everything that is at fault is told in one go, with what to do', async () => {
  const { port } = new URL(await startHttpServer(() => {}))

  const { code, found } = await examine(['no-such-file.ts', '--port', port], {
    OPENAI_BASE_URL: `http://${NOBODY}/v1`,
    DATABASE_URL: `postgres://root:pg-secret@${NOBODY}/test`,
  })

  expect(code).toBe(1)
  expect(found.get('Agencies')).toEqual(['FAULT', 'There is no file no-such-file.ts.'])
  expect(found.get('Address')![1]).toMatch(/choose another with --port \(in code: port\)\.$/)
  expect(found.get('Model')![1]).toContain('cannot be reached: check OPENAI_BASE_URL')
  expect(found.get('Database')![1]).toBe(
    `DATABASE_URL: PostgreSQL at ${NOBODY} refuses: connect ECONNREFUSED ${NOBODY}.`,
  )
  expect(JSON.stringify([...found])).not.toContain('pg-secret')
})

test('an agent whose model has no key is a fault that names the agent and the variable', async () => {
  const without = await examine([CLAUDE])
  const withKey = await examine([CLAUDE], { ANTHROPIC_API_KEY: 'sk-ant' })

  expect(without.output).toMatch(
    /^FAULT +Model +Writer of desk: There is no API key for anthropic: set ANTHROPIC_API_KEY/m,
  )
  expect([without.code, withKey.code]).toEqual([1, 0])
})

test('a data folder below a file is a fault that names the variable', async () => {
  const { code, found } = await examine([DEMO], { BUREAU_DATA: path.join(BIN, 'data') })

  expect(code).toBe(1)
  expect(found.get('Database')).toEqual(['FAULT', `BUREAU_DATA: ${BIN} is a file, not a folder.`])
})

test('every setting that is not valid is named at once, and the rest is checked without it', async () => {
  const { code, output, found } = await examine([DEMO], {
    PORT: 'abc',
    OPENAI_BASE_URL: 'foo',
    PLATFORM_MAX_LAG_MS: 'slow',
    BUREAU_ALLOWED_HOSTS: '***',
    BUREAU_OAUTH_TOKEN_KEY: 'x',
  })

  expect(code).toBe(1)
  for (const name of ['PORT', 'OPENAI_BASE_URL', 'PLATFORM_MAX_LAG_MS', 'BUREAU_OAUTH_TOKEN_KEY'])
    expect(output).toContain(`${name}: must be`)
  expect(output).toContain('BUREAU_ALLOWED_HOSTS: "***" is no host')
  expect(found.get('Model')![0]).toBe('note')
  expect([...found.keys()]).toEqual(expect.arrayContaining(['Address', 'Model', 'Redis', 'Database', 'Disk']))
})

test('an unknown setting is noted, with the name that was probably meant', async () => {
  const { code, output } = await examine([DEMO], { BUREAU_MODLE: 'gpt-5', BUREAU_DATE: '/data' })

  expect(code).toBe(0)
  expect(output).toMatch(/^note +Settings +BUREAU_MODLE: there is no such setting\. Did you mean BUREAU_MODEL\?$/m)
  expect(output).toMatch(/^ +BUREAU_DATE: there is no such setting\. Did you mean BUREAU_DATA\?$/m)
})

test('a setting that is missing is a fault, and what does not need it is checked', async () => {
  const { code, found } = await examine([DEMO], { NODE_ENV: 'production', OPENAI_BASE_URL: `http://${NOBODY}/v1` })

  expect(code).toBe(1)
  expect(found.get('Settings')![1]).toContain('PUBLIC_BASE_URL: set the https:// address')
  expect(found.has('Redis')).toBe(true)
  expect(found.has('Database')).toBe(false)
})

test.each([
  ['goes on without a word when nobody reads on', '| head -n 1', 0, ''],
  [
    'says so when its output has no room',
    '> /dev/full',
    74,
    'The output cannot be written: ENOSPC: no space left on device, write.\n',
  ],
])('%s', (_title, redirection, status, stderr) => {
  const command = `set -o pipefail; "${process.execPath}" "${BIN}" doctor "${DEMO}" ${redirection}`
  const env = { PATH: process.env['PATH'], PORT: '0' }

  expect(
    spawnSync('bash', ['-c', command], { env, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' }),
  ).toMatchObject({
    status,
    stderr,
  })
})
