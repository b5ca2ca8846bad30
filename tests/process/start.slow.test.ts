import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { BIN, runBureau, startBureau } from '../support/bureau-process.ts'
import { freePort } from '../support/free-port.ts'
import { startOnTerminal } from '../support/on-terminal.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { closeAfterTest, TestStream } from '../support/test-server.ts'

const DEMO = fileURLToPath(new URL('../../examples/demo-agency.ts', import.meta.url))

async function openStream(url: string, message: string): Promise<TestStream> {
  const body = JSON.stringify({ message })
  const response = await fetch(`${url}/demo/get_response_stream`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  return new TestStream(response)
}

/** The command that a server says can be pasted. */
const commandIn = (output: string): string => /^ {2}(curl (?:.*\\\n)*.*)$/m.exec(output)![1]!

test('start says what is served, that the demo model answers, and a command that works as it is', async () => {
  const bureau = await startBureau(['start', DEMO, '--log', 'pretty'])

  expect(bureau.output()).toContain('the built-in demo model')
  expect(bureau.output()).toContain(`  Console    ${bureau.url}/console\n`)
  const curl = spawnSync('bash', ['-c', commandIn(bureau.output())], { encoding: 'utf8' })

  expect(curl.status).toBe(0)
  expect(curl.stdout).toMatch(/^event: meta\n/)
  expect(curl.stdout).toContain('"callerAgent":"Concierge"')
  expect(curl.stdout).toContain('It is 18 °C and sunny in Paris.')
  expect(curl.stdout).toMatch(/event: end\ndata: \[DONE\]\n\n$/)
})

test.each(['one-long-token', 'one-long-token another-token', 'one-long-token\tanother-token'])(
  'with the token "%s" the command works where it is set, and does not hold it',
  async (APP_TOKEN) => {
    const bureau = await startBureau(['serve', DEMO, '--log', 'pretty'], { APP_TOKEN })
    const line = commandIn(bureau.output())
    const env = { ...process.env, APP_TOKEN }
    const curl = spawnSync('bash', ['-c', line], { encoding: 'utf8', env })

    expect(curl.stdout).toContain('It is 18 °C and sunny in Paris.')
    expect(bureau.output()).not.toContain('long-token')
  },
)

test('the first start makes an owner, whose key is in a file for its user alone, and in no output', async () => {
  const BUREAU_DATA = await temporaryFolder()
  const file = path.join(BUREAU_DATA, 'credentials.json')
  const first = await startBureau(['platform', DEMO, '--log', 'pretty'], { BUREAU_DATA })
  const { apiKey } = JSON.parse(readFileSync(file, 'utf8'))
  const curl = spawnSync('bash', ['-c', commandIn(first.output())], { encoding: 'utf8' })
  first.child.kill('SIGTERM')
  expect(await first.exited).toBe(0)

  expect(curl.stdout).toContain('It is 18 °C and sunny in Paris.')
  expect(curl.stdout).toContain('event: end')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(first.output()).toContain(file)
  expect(first.output()).not.toContain(apiKey)
})

test('without a terminal every line is JSON, and one says where the server is', async () => {
  const bureau = await startBureau(['start', DEMO])
  const records = bureau
    .output()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)

  expect(records).toContainEqual(
    expect.objectContaining({ url: bureau.url, agencies: ['demo'], msg: `Bureau is ready at ${bureau.url}` }),
  )
})

test('on a terminal the first key is shown, at the first start alone', async () => {
  const BUREAU_DATA = await temporaryFolder()
  const file = path.join(BUREAU_DATA, 'credentials.json')
  const outputs: string[] = []
  for (let start = 0; start < 2; start += 1) {
    const { output, stop } = startOnTerminal(`${process.execPath} ${BIN} start ${DEMO}`, { BUREAU_DATA, PORT: '0' })
    await output('-d ')
    outputs.push(await stop())
  }
  const { apiKey } = JSON.parse(readFileSync(file, 'utf8'))

  expect(outputs[0]).toContain('preparing the database …')
  expect(outputs[0]).toContain(apiKey)
  expect(outputs[1]).toContain('Bureau is ready at')
  expect(outputs[1]).not.toContain(apiKey)
  expect(outputs[1]).not.toContain('{"level"')
})

const LINKS = ['console/', 'docs', 'redoc', 'v1/docs', 'v1/redoc', 'guide/README.md']

test('the address of a server is a page with links, which needs no token', async () => {
  const bureau = await startBureau(['start', DEMO], { APP_TOKEN: 'a-long-enough-token' })
  const page = await fetch(bureau.url)
  const text = await page.text()

  expect(page.status).toBe(200)
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
  expect([...text.matchAll(/href="([^"]+)"/g)].map((match) => match[1])).toEqual(LINKS)
  const names = [...text.matchAll(/<a [^>]+>([^<]+)/g)].map((match) => match[1])
  expect(new Set(names).size).toBe(LINKS.length)
  expect(text).not.toContain('demo')
  const headers = { authorization: 'Bearer a-long-enough-token' }
  for (const link of LINKS) {
    expect((await fetch(`${bureau.url}/${link}`, { headers })).status).toBe(200)
  }
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

test.each(['serve', 'start', 'dev'])('%s goes on when nobody reads its log any more', async (command) => {
  const bureau = await startBureau([command, DEMO])
  bureau.child.stdout!.destroy()

  // Each of them is logged, in vain.
  for (let n = 0; n < 3; n++) {
    const stream = await openStream(bureau.url, 'Hello')
    await stream.all()
    expect(stream.outline.at(-1)).toBe('end')
  }
  bureau.child.kill('SIGTERM')

  expect(await bureau.exited).toBe(0)
  expect(bureau.output()).not.toMatch(/EPIPE|Error/)
})

test('a server whose log has no room goes on, and says so once', async () => {
  const port = await freePort()
  const command = `exec "${process.execPath}" "${BIN}" serve "${DEMO}" --port ${port} > /dev/full`
  const child = spawn('bash', ['-c', command], { stdio: ['ignore', 'ignore', 'pipe'] })
  closeAfterTest(async () => void child.kill('SIGKILL'))
  const errors = text(child.stderr)
  const answers = async (): Promise<boolean> => (await fetch(`http://127.0.0.1:${port}/healthz`)).ok

  await expect.poll(() => answers().catch(() => false), { timeout: 20_000 }).toBe(true)
  const stream = await openStream(`http://127.0.0.1:${port}`, 'Hello')
  await stream.all()
  child.kill('SIGTERM')

  expect(stream.outline.at(-1)).toBe('end')
  expect(await errors).toMatch(/^The output cannot be written: ENOSPC.*\n$/)
})

test('a real provider is named instead of the demo model when a key is set', async () => {
  const bureau = await startBureau(['serve', DEMO], { OPENAI_API_KEY: 'sk-test', BUREAU_MODEL: 'gpt-x' })

  expect(bureau.output()).toContain('gpt-x at https://api.openai.com/v1')
  expect(bureau.output()).not.toContain('sk-test')
})

test.each([
  [['start', 'nothing.ts'], 'There is no file nothing.ts.'],
  [['serve', BIN.replace('bureau.mjs', 'bureau.test.ts')], ''],
])('a mistake in the set-up ends with a message: %s', async (args, message) => {
  const { code, err } = await runBureau(args)

  expect(code).not.toBe(0)
  expect(err).toContain(message)
})
