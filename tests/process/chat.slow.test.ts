import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

const BIN = fileURLToPath(new URL('../../packages/cli/bin/bureau.mjs', import.meta.url))

async function chat(args: readonly string[], input: string): Promise<{ out: string; err: string; code: unknown }> {
  const child = spawn(process.execPath, [BIN, 'chat', ...args], { stdio: 'pipe' })
  let [out, err] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()))
  child.stdin.end(input)
  const [code] = (await once(child, 'exit')) as [unknown]
  return { out, err, code }
}

test('talks over many turns and sends the whole conversation each time', async () => {
  const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })
  server.provider.respond((request) => text(`heard ${request.lastUserText}, ${request.items.length} items`))
  const turns = Array.from({ length: 20 }, (_, n) => `message ${n}`)

  const { out, code } = await chat(['--url', server.url, '--token', 'right'], `${turns.join('\n')}\n`)

  expect(out.trim().split('\n')).toEqual(turns.map((turn, n) => `heard ${turn}, ${n * 2 + 1} items`))
  expect(code).toBe(0)
  expect(server.provider.rejected).toEqual([])
})

test('says what is wrong when the token is, and when nothing listens', async () => {
  const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

  const refused = await chat(['--url', server.url, '--token', 'wrong'], '')
  const absent = await chat(['--url', 'http://127.0.0.1:9'], '')

  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('answered with 401: Unauthorized') })
  expect(absent.code).toBe(1)
  expect(absent.err).toContain('http://127.0.0.1:9')
})
