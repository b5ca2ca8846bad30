import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startHttpServer } from '../support/http-server.ts'
import { runBureau, startBureau } from '../support/bureau-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const BIN = fileURLToPath(new URL('../../packages/cli/bin/bureau.mjs', import.meta.url))
const DEMO = fileURLToPath(new URL('../../examples/demo-agency.ts', import.meta.url))
const PLATFORM_OPERATOR_KEY = 'the key of the operator, which is long enough'

function bureau(args: readonly string[], env: Record<string, string>) {
  const done = spawnSync(process.execPath, [BIN, ...args], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], ...env },
  })
  return { status: done.status, out: done.stdout.trim(), err: done.stderr.trim() }
}

const integrationsOf = async (url: string, token: string) => {
  const response = await fetch(`${url}/v1/integrations`, { headers: { authorization: `Bearer ${token}` } })
  return { status: response.status, body: await response.json() }
}

test('owners and keys are made at the records, and at a server that has them in use', async () => {
  const BUREAU_DATA = await temporaryFolder()
  const made = bureau(['owners', 'create', 'Ada'], { BUREAU_DATA })
  expect(made.out).toMatch(/^own_[0-9a-z]{26}$/)
  const token = bureau(['keys', 'create', made.out, 'first'], { BUREAU_DATA }).out
  const { url } = await startBureau(['platform', DEMO], { BUREAU_DATA, PLATFORM_OPERATOR_KEY })
  expect(await integrationsOf(url, token)).toMatchObject({ status: 200, body: { data: [{ agencyId: 'demo' }] } })

  expect(bureau(['owners', 'list'], { BUREAU_DATA })).toMatchObject({
    status: 1,
    err: expect.stringContaining('is in use by another process. Reach it with --url.'),
  })
  const there = { PLATFORM_OPERATOR_KEY }
  expect(bureau(['owners', 'list', '--url', url], there).out).toMatch(
    new RegExp(`^${made.out}  active  [0-9-]{10}  Ada$`),
  )
  const keys = bureau(['keys', 'list', made.out, '--url', url], there).out
  expect(keys).toMatch(/^key_[0-9a-z]{26}  ….{4}  valid  first$/)
  expect(bureau(['keys', 'revoke', made.out, keys.split(' ')[0]!, '--url', url], there).err).toBe('Revoked first.')
  expect((await integrationsOf(url, token)).status).toBe(401)

  const second = bureau(['keys', 'create', made.out, 'second', '--expires-in-days', '1', '--url', url], there).out
  expect((await integrationsOf(url, second)).status).toBe(200)
  expect(bureau(['owners', 'disable', made.out, '--url', url], there).err).toContain('Disabled Ada.')
  expect(bureau(['owners', 'list', '--url', url], there).out).toContain('  disabled  ')
})

test.each([
  [['owners', 'list', '--url', 'http://127.0.0.1:1'], {}, 'PLATFORM_OPERATOR_KEY: set the key that the server has.'],
  [
    ['owners', 'list', '--url', 'http://127.0.0.1:1'],
    { PLATFORM_OPERATOR_KEY: '' },
    'PLATFORM_OPERATOR_KEY: set the key that the server has.',
  ],
  [
    ['owners', 'list', '--url', 'http://127.0.0.1:1'],
    { PLATFORM_OPERATOR_KEY },
    'No server answers at http://127.0.0.1:1.',
  ],
])('%j with %j fails in one sentence', (args, env, sentence) => {
  expect(bureau(args, env as Record<string, string>)).toEqual({ status: 1, out: '', err: sentence })
})

test.each([
  ['owners', 'list'],
  ['owners', 'disable', 'own_none'],
  ['keys', 'list', 'own_none'],
  ['keys', 'create', 'own_none', 'first'],
  ['rotate-master-key'],
  ['doctor', DEMO, '--port', '0'],
])('where no platform has been, %s %s makes nothing', async (...args) => {
  const folder = await temporaryFolder()
  const BUREAU_DATA = path.join(folder, 'data')

  const { status, err } = bureau(args, {
    BUREAU_DATA,
    PLATFORM_MASTER_KEY: 'ab'.repeat(32),
    PLATFORM_NEW_MASTER_KEY: 'cd'.repeat(32),
  })

  expect(readdirSync(folder)).toEqual([])
  if (args[0] === 'doctor') return expect(status).toBe(0)
  expect({ status, err }).toEqual({
    status: 78,
    err: `There is no database in ${BUREAU_DATA}. BUREAU_DATA must name the data folder of the platform.`,
  })
})

test.each([
  ['owners', 'list'],
  ['owners', 'create', 'Ada'],
])('%s %s at a website ends in one line', async (...args) => {
  const url = await startHttpServer((_, response) => response.end('<!doctype html>'))

  const { code, out, err } = await runBureau([...args, '--url', url], { PLATFORM_OPERATOR_KEY })
  expect({ code, out, err }).toEqual({ code: 1, out: '', err: `${url} is no platform.\n` })
})

test('lists are whole, however long', async () => {
  const BUREAU_DATA = await temporaryFolder()
  const { url } = await startBureau(['platform', DEMO], { BUREAU_DATA, PLATFORM_OPERATOR_KEY })
  const headers = { authorization: `Bearer ${PLATFORM_OPERATOR_KEY}`, 'content-type': 'application/json' }
  const make = (name: string) =>
    fetch(`${url}/v1/admin/owners`, { method: 'POST', headers, body: JSON.stringify({ name }) })
  for (let at = 0; at < 101; at++) expect((await make(`Owner ${at}`)).status).toBe(201)

  const { out } = bureau(['owners', 'list', '--url', url], { PLATFORM_OPERATOR_KEY })
  expect(out.split('\n').map((line) => line.split('  ').at(-1))).toEqual(
    expect.arrayContaining(Array.from({ length: 101 }, (_, at) => `Owner ${at}`)),
  )
})

test('a key may do what its scopes say', async () => {
  const BUREAU_DATA = await temporaryFolder()
  const owner = bureau(['owners', 'create', 'Ada'], { BUREAU_DATA }).out

  const wrong = bureau(['keys', 'create', owner, 'k', '--scopes', 'runs,everything'], { BUREAU_DATA })
  const token = bureau(['keys', 'create', owner, 'k', '--scopes', 'runs, usage:read'], { BUREAU_DATA }).out
  const { url } = await startBureau(['platform', DEMO], { BUREAU_DATA })

  expect(wrong).toMatchObject({
    status: 1,
    err: expect.stringContaining('There is no scope "everything". Scopes: *, runs,'),
  })
  expect((await integrationsOf(url, token)).status).toBe(403)
  const usage = await fetch(`${url}/v1/usage/summary?groupBy=consumer`, {
    headers: { authorization: `Bearer ${token}` },
  })
  expect(usage.status).toBe(200)
})

test('a backup that cannot be written is told in one line', async () => {
  const BUREAU_DATA = await temporaryFolder()
  bureau(['owners', 'create', 'Ada'], { BUREAU_DATA })

  const { status, err } = bureau(['backup', '/nowhere/copy.tar'], { BUREAU_DATA })

  expect(status).toBe(1)
  expect(err).toMatch(/^The copy cannot be written to \/nowhere\/copy\.tar: ENOENT.*$/)
})

test('an owner that is not there is named as such', async () => {
  const BUREAU_DATA = await temporaryFolder()
  bureau(['owners', 'create', 'Ada'], { BUREAU_DATA })

  expect(bureau(['keys', 'list', 'own_none'], { BUREAU_DATA })).toEqual({
    status: 1,
    out: '',
    err: 'There is no such owner.',
  })
})
