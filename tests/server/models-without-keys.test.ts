import { Writable } from 'node:stream'
import { Agency, Agent } from '@bureau/framework'
import { expect, test } from 'vitest'
import { desk } from '../support/claude-agency.ts'
import { startTestServer } from '../support/test-server.ts'

/** What a server with these variables says of models when it starts. */
async function saidOfModels(env: Record<string, string>, agencies = { desk }): Promise<readonly string[]> {
  const lines: string[] = []
  const logDestination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(...chunk.toString().trim().split('\n'))
      done()
    },
  })
  await startTestServer({ agencies, logLevel: 'warn', logDestination, env })
  return lines.map((line) => JSON.parse(line).msg as string).filter((said) => said.startsWith('no model'))
}

test('a server whose agents lack a key starts, and says which agents and which variable', async () => {
  expect(await saidOfModels({})).toEqual([
    'no model for Writer: There is no API key for anthropic: set ANTHROPIC_API_KEY, or send thirdparty_keys.anthropic.',
  ])
  expect(await saidOfModels({ ANTHROPIC_API_KEY: 'sk-ant' })).toEqual([])
})

test('a model that is named as gateways do is told how the vendor itself is named', async () => {
  const entryPoint = new Agent({ name: 'Writer', model: 'anthropic/claude-opus-5' })
  const agencies = { desk: new Agency({ entryPoint }) }
  const env = { OPENAI_BASE_URL: 'https://api.openai.com/v1', OPENAI_API_KEY: '' }

  expect(await saidOfModels(env, agencies)).toEqual([
    'no model for Writer: There is no API key for the model: set OPENAI_API_KEY. ' +
      'For the vendor itself, name the model thirdparty/anthropic/claude-opus-5.',
  ])
})
