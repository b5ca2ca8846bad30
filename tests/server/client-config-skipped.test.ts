import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Agency, Agent, type AgentOptions } from '@bureau/framework'
import { assistantMessage, modelResponder, ScriptedModel } from '@bureau/framework/testing'
import { expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { closeAfterTest, type Json, startTestServer, type TestServer } from '../support/test-server.ts'

const ownModel = (): ScriptedModel => new ScriptedModel([modelResponder(() => [assistantMessage('mine')])])

async function serverWith(models: Readonly<Record<string, AgentOptions['model']>>, more: object = {}) {
  const directory = await mkdtemp(path.join(tmpdir(), 'bureau-logs-'))
  closeAfterTest(() => rm(directory, { recursive: true, force: true }))
  const agents = Object.entries(models).map(
    ([name, model]) => new Agent({ name, instructions: name, ...(model !== undefined && { model }) }),
  )
  const agency = new Agency({ entryPoint: agents })
  return startTestServer({ agencies: { shop: agency }, enableLogging: true, logsDir: directory, ...more })
}

/** What the log says of overrides that were left out. */
async function skippedIn(server: TestServer, client_config: object, recipient_agent?: string): Promise<Json[]> {
  const body = { message: 'hi', client_config, recipient_agent }
  await server.post('/shop/get_response', body, { 'x-agency-log-id': 'run' })
  const { body: records } = await server.get('/get_logs?log_id=run')
  return records.flatMap(({ message, details: { level, fields } }: Json) =>
    message.startsWith('client_config is not applied: ') ? [[level, fields.agents, message.slice(30)]] : [],
  )
}

test('agents that an override does not reach are named in the log with the reason, and the run proceeds', async () => {
  const server = await serverWith({
    Vendor: 'gpt-test',
    Custom: ownModel(),
    Other: 'anthropic/claude-x',
    'Another one': 'mistral/x',
    Third: 'thirdparty/openai_compatible/llama',
  })
  server.provider.respond(() => text('ok'))

  expect(await skippedIn(server, { api_key: 'sk-caller' })).toEqual([
    ['WARNING', 'Custom', 'a model object is called as it is'],
    ['WARNING', 'Other, Another one', 'models of other vendors stay where the operator has them'],
  ])
})

test.each<[string, object, string[]]>([
  ['nothing', {}, []],
  ['nulls', { model: null, base_url: null, api_key: null }, []],
  ['keys of other vendors only', { thirdparty_keys: { anthropic: 'x' } }, []],
  ['settings', { model_settings_extra_args: { max_tokens: 5 } }, ['Custom']],
  ['a model', { model: 'gpt-other' }, ['Custom']],
  ['a key', { api_key: 'sk-caller' }, ['Custom', 'Demo', 'Other']],
  ['headers', { default_headers: { 'x-a': 'b' } }, ['Custom', 'Demo', 'Other']],
  ['an address', { base_url: 'https://example.com/v1' }, ['Custom', 'Demo', 'Other']],
])('a request for %s does not reach these agents: %j %j', async (_, config, agents) => {
  const server = await serverWith({
    Demo: 'demo',
    Vendor: 'gpt-test',
    Custom: ownModel(),
    Other: 'anthropic/claude-x',
  })
  server.provider.respond(() => text('ok'))

  const skipped = await skippedIn(server, config, 'Custom')

  expect(new Set(skipped.flatMap(([, names]) => names.split(', ')))).toEqual(new Set(agents))
})

test('keys of providers that are not known are ignored with a warning, which does not repeat them', async () => {
  const server = await serverWith({ Vendor: 'gpt-test' })
  server.provider.respond(() => text('ok'))
  const client_config = { litellm_keys: { anthropic: 'sk-a', cohere: 'sk-secret', groq: 'sk-secret' } }

  const { status } = await server.post(
    '/shop/get_response',
    { message: 'hi', client_config },
    { 'x-agency-log-id': 'run' },
  )

  const { body: records } = await server.get('/get_logs?log_id=run')
  const told = records.filter(({ message }: Json) => message.includes('keys of unknown providers are ignored'))
  expect([status, told.map(({ details }: Json) => details.level)]).toEqual([200, ['WARNING']])
  expect(JSON.stringify(records)).not.toContain('sk-secret')
})
