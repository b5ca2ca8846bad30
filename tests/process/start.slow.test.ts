import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startBureau } from '../support/bureau-process.ts'
import { closeAfterTest, TestStream } from '../support/test-server.ts'

const DEMO = fileURLToPath(new URL('../../examples/demo-agency.ts', import.meta.url))
const BIN = fileURLToPath(new URL('../../packages/cli/bin/bureau.mjs', import.meta.url))

async function openStream(url: string, message: string): Promise<TestStream> {
  const body = JSON.stringify({ message })
  const response = await fetch(`${url}/demo/get_response_stream`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  return new TestStream(response)
}

test('start says what is served, that the demo model answers, and a curl line that works', async () => {
  const bureau = await startBureau(['start', DEMO])

  expect(bureau.output()).toContain('the built-in demo model')
  const line = /^ {2}(curl .*)$/m.exec(bureau.output())![1]!
  const curl = spawnSync('bash', ['-c', line], { encoding: 'utf8' })

  expect(curl.status).toBe(0)
  expect(curl.stdout).toMatch(/^event: meta\n/)
  expect(curl.stdout).toContain('"callerAgent":"Concierge"')
  expect(curl.stdout).toContain('It is 18 °C and sunny in Paris.')
  expect(curl.stdout).toMatch(/event: end\ndata: \[DONE\]\n\n$/)
})

test('with a token the printed curl line works where the token is set, and does not hold it', async () => {
  const bureau = await startBureau(['serve', DEMO], { APP_TOKEN: 'a-long-enough-token' })
  const line = /^ {2}(curl .*)$/m.exec(bureau.output())![1]!
  const env = { ...process.env, APP_TOKEN: 'a-long-enough-token' }
  const curl = spawnSync('bash', ['-c', line], { encoding: 'utf8', env })

  expect(line).toContain('-H "Authorization: Bearer $APP_TOKEN"')
  expect(curl.stdout).toContain('It is 18 °C and sunny in Paris.')
  expect(bureau.output()).not.toContain('a-long-enough-token')
})

test('start serves the platform too, with a first owner whose credentials are shown once and work', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'bureau-first-'))
  closeAfterTest(async () => rmSync(folder, { recursive: true, force: true }))
  const first = await startBureau(['start', DEMO], { BUREAU_DATA: folder })
  const line = /^ {2}(curl .*get_completion_v2 .*)$/m.exec(first.output())![1]!
  const curl = spawnSync('bash', ['-c', line], { encoding: 'utf8' })
  first.child.kill('SIGTERM')
  expect(await first.exited).toBe(0)

  expect(curl.stdout).toContain('It is 18 °C and sunny in Paris.')
  expect(curl.stdout).toContain('event: end')
  expect(statSync(path.join(folder, 'credentials.json')).mode & 0o777).toBe(0o600)
  const again = await startBureau(['start', DEMO], { BUREAU_DATA: folder })
  expect(again.output()).not.toContain('API key')
  expect(again.output()).toContain(path.join(folder, 'credentials.json'))
})

test('a stop signal lets open streams finish, refuses new connections, and ends with 0', async () => {
  const bureau = await startBureau(['start', DEMO])
  const stream = await openStream(bureau.url, 'blah '.repeat(150))
  await stream.untilText('output_text.delta')

  bureau.child.kill('SIGTERM')
  await stream.all()

  expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
  expect(stream.result).not.toHaveProperty('cancelled')
  expect(await bureau.exited).toBe(0)
})

test('a real provider is named instead of the demo model when a key is set', async () => {
  const bureau = await startBureau(['start', DEMO], { OPENAI_API_KEY: 'sk-test', BUREAU_MODEL: 'gpt-x' })

  expect(bureau.output()).toContain('gpt-x at https://api.openai.com/v1')
  expect(bureau.output()).not.toContain('sk-test')
})

test.each([
  [['start', 'nothing.ts'], 'There is no file nothing.ts.'],
  [['serve', BIN.replace('bureau.mjs', 'bureau.test.ts')], ''],
])('a mistake in the set-up ends with a message: %s', (args, message) => {
  const done = spawnSync(process.execPath, [BIN, ...args], { encoding: 'utf8' })

  expect(done.status).not.toBe(0)
  expect(done.stderr).toContain(message)
})
