import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { desk } from '../support/claude-agency.ts'
import { startTestServer } from '../support/test-server.ts'

/** What a server with these variables says of models when it starts. */
async function saidOfModels(env: Record<string, string>): Promise<readonly string[]> {
  const lines: string[] = []
  const logDestination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(...chunk.toString().trim().split('\n'))
      done()
    },
  })
  await startTestServer({ agencies: { desk }, logLevel: 'warn', logDestination, env })
  return lines.map((line) => JSON.parse(line).msg as string).filter((said) => said.startsWith('no model'))
}

test('a server whose agents lack a key starts, and says which agents and which variable', async () => {
  expect(await saidOfModels({})).toEqual([
    'no model for Writer: The server has no API key for anthropic: set ANTHROPIC_API_KEY, or send thirdparty_keys.anthropic.',
  ])
  expect(await saidOfModels({ ANTHROPIC_API_KEY: 'sk-ant' })).toEqual([])
})
