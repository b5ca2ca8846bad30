import { Agency, Agent, type ModelTransport, ResponseEventWriter, type ResponsesRequest, tool } from '@bureau/framework'
import { codeInterpreterTool, hostedMcpTool, OpenAIProvider, webSearchTool } from '@openai/agents'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type FakeProvider,
  type FakeProviderOptions,
  startFakeProvider,
  text,
  toolCall,
} from '../support/fake-provider.ts'
import { closeAfterTest, type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

async function otherProvider(options?: FakeProviderOptions): Promise<FakeProvider> {
  const provider = await startFakeProvider(options)
  closeAfterTest(() => provider.close())
  provider.respond(() => text('from the other provider'))
  return provider
}

const LOOPBACK = { egress: { allow: ['127.0.0.1'] } }

function ask(server: TestServer, client_config: unknown, more: object = {}) {
  return server.post('/solo/get_response', { message: 'hi', client_config, ...more })
}

function seen({ requests }: FakeProvider): unknown[] {
  return requests.map(({ path, model, apiKey }) => [path, model, apiKey])
}

describe('model', () => {
  test('replaces the model of every agent that names one, for this request only', async () => {
    const helper = new Agent({ name: 'Helper', instructions: 'Help.', model: 'gpt-helper' })
    const lead = new Agent({ name: 'Lead', instructions: 'Lead.' })
    const server = await startTestServer({
      agencies: { solo: new Agency({ entryPoint: lead, flows: [[lead, helper]] }) },
    })
    server.provider.respond(({ instructions, toolOutputs }) => {
      if (instructions === 'Help.') return text('helped')
      const message = { recipient_agent: 'Helper', message: 'help', additional_instructions: '' }
      return toolOutputs.length > 0 ? text('done') : toolCall('send_message', message)
    })

    await ask(server, { model: 'gpt-other' })
    await ask(server, {})

    expect(server.provider.requests.map(({ model }) => model)).toEqual([
      'gpt-other',
      'gpt-other',
      'gpt-other',
      'gpt-5-mini',
      'gpt-helper',
      'gpt-5-mini',
    ])
  })

  test('takes the defaults of the agents SDK for the model in use along, and leaves what the agent says', async () => {
    const agent = new Agent({ name: 'Solo', instructions: 'x' })
    const precise = new Agent({ name: 'Precise', instructions: 'x', modelSettings: { reasoning: { effort: 'high' } } })
    const agency = new Agency({ entryPoint: [agent, precise] })
    const server = await startTestServer({ agencies: { solo: agency } })
    server.provider.respond(() => text('ok'))

    await ask(server, { model: 'gpt-4.1' })
    await ask(server, { model: 'gpt-5' })
    await ask(server, { model: 'gpt-5' }, { recipient_agent: 'Precise' })

    expect(server.provider.requests.map(({ body }) => [body['reasoning'], body['text']])).toEqual([
      [undefined, undefined],
      [{ effort: 'low' }, { verbosity: 'low' }],
      [{ effort: 'high' }, undefined],
    ])
  })

  test('a gateway gets names with a prefix as they are', async () => {
    const server = await startTestServer({ agencies: soloAgency(), ...LOOPBACK })
    const gateway = await otherProvider()
    const own = { base_url: gateway.baseUrl, api_key: 'sk-caller' }

    await ask(server, { ...own, model: 'anthropic/claude-x' })
    await ask(server, { ...own, model: 'openai/gpt-oss' })

    expect(gateway.requests.map(({ model }) => model)).toEqual(['anthropic/claude-x', 'openai/gpt-oss'])
  })
})

describe('names of models', () => {
  test.each([
    ['gpt-x', true],
    ['openai/gpt-x', true],
    ['anthropic/claude-x', false],
  ])('%s: overridden %s', async (model, isOverridden) => {
    const server = await startTestServer({ agencies: soloAgency({ model }), ...LOOPBACK })
    const theirs = await otherProvider()
    server.provider.respond(() => text('from the operator'))

    const { status, body } = await ask(server, { base_url: theirs.baseUrl, api_key: 'sk-caller' })

    expect(status).toBe(200)
    expect(body.response).toBe(isOverridden ? 'from the other provider' : 'from the operator')
    const [request] = isOverridden ? theirs.requests : server.provider.requests
    expect(request).toMatchObject({
      model: model.replace('openai/', ''),
      apiKey: isOverridden ? 'sk-caller' : 'sk-server',
    })
  })
})

describe('thirdparty/... models', () => {
  test.each([
    ['thirdparty_keys', 'thirdparty'],
    ['litellm_keys', 'litellm'],
  ])('%s gives each provider its own key', async (field, prefix) => {
    const provider = await otherProvider()
    const router = new Agent({ name: 'Router', instructions: 'x', model: `${prefix}/openrouter/llama` })
    const local = new Agent({ name: 'Local', instructions: 'x', model: `${prefix}/openai_compatible/llama` })
    const server = await startTestServer({
      agencies: { solo: new Agency({ entryPoint: [router, local] }) },
      env: {
        OPENROUTER_BASE_URL: provider.baseUrl,
        OPENROUTER_API_KEY: 'sk-operator',
        OPENAI_COMPATIBLE_BASE_URL: provider.baseUrl,
      },
    })
    const keys = { [field]: { openrouter: 'sk-router', openai_compatible: 'sk-local' }, api_key: 'sk-vendor' }

    for (const recipient_agent of ['Router', 'Local']) await ask(server, keys, { recipient_agent })
    await ask(server, null, { recipient_agent: 'Router' })

    expect(provider.requests.map(({ apiKey }) => apiKey)).toEqual(['sk-router', 'sk-local', 'sk-operator'])
    expect(server.provider.requests).toEqual([])
  })

  test('google and gemini are one provider', async () => {
    const provider = await otherProvider()
    const server = await startTestServer({
      agencies: soloAgency({ model: 'thirdparty/google/gemini-x' }),
      env: { GEMINI_BASE_URL: provider.baseUrl },
    })

    await ask(server, { thirdparty_keys: { gemini: 'key-of-caller' } })

    expect(provider.requests[0]?.headers['x-goog-api-key']).toBe('key-of-caller')
  })

  test('a bare api_key is for compatible providers, not for other vendors', async () => {
    const provider = await otherProvider()
    const env = { OPENAI_COMPATIBLE_BASE_URL: provider.baseUrl, ANTHROPIC_BASE_URL: provider.baseUrl }
    const local = await startTestServer({ agencies: soloAgency({ model: 'thirdparty/openai_compatible/llama' }), env })
    const vendor = await startTestServer({ agencies: soloAgency({ model: 'thirdparty/anthropic/claude-x' }), env })

    expect((await ask(local, { api_key: 'sk-caller' })).status).toBe(200)
    expect((await ask(vendor, { api_key: 'sk-caller' })).status).toBe(500)

    expect(seen(provider)).toEqual([['/v1/chat/completions', 'llama', 'sk-caller']])
  })

  test('base_url and headers apply to them too', async () => {
    const server = await startTestServer({
      agencies: soloAgency({ model: 'thirdparty/openai_compatible/llama' }),
      ...LOOPBACK,
    })
    const theirs = await otherProvider()

    await ask(server, { base_url: theirs.baseUrl, api_key: 'sk-caller', default_headers: { 'X-Team': 'blue' } })

    expect(seen(theirs)).toEqual([['/v1/chat/completions', 'llama', 'sk-caller']])
    expect(theirs.requests[0]!.headers['x-team']).toBe('blue')
  })

  test('thirdparty/openai/... is the default vendor', async () => {
    const server = await startTestServer({ agencies: soloAgency({ model: 'thirdparty/openai/gpt-x' }) })
    server.provider.respond(() => text('ok'))

    await ask(server, { thirdparty_keys: { openai: 'sk-caller' } })
    await ask(server, null)

    expect(seen(server.provider)).toEqual([
      ['/v1/responses', 'gpt-x', 'sk-caller'],
      ['/v1/responses', 'gpt-x', 'sk-server'],
    ])
  })

  test('422 for a model of an unknown provider, which names the others; its key alone does no harm', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('ok'))

    const refused = await ask(server, { model: 'litellm/groq/llama', litellm_keys: { groq: 'gsk' } })
    const answered = await ask(server, { litellm_keys: { groq: 'gsk' }, thirdparty_keys: { nobody: 'x' } })

    expect([refused.status, refused.body.detail[0].loc.at(-1)]).toEqual([422, 'model'])
    expect(refused.body.detail[0].msg).toContain("there is no provider 'groq'. Providers: openai, anthropic")
    expect([answered.status, answered.body.response]).toEqual([200, 'ok'])
  })

  test.each(['thirdparty/openai', 'litellm/anthropic/'])('422 for %s, which names no model', async (model) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const { status, body } = await ask(server, { model, thirdparty_keys: { openai: 'sk', anthropic: 'sk' } })

    expect([status, body.detail[0].loc.at(-1)]).toEqual([422, 'model'])
    expect(body.detail[0].msg).toContain('thirdparty/<provider>/<model>')
  })

  test('openrouter/… without a prefix is a model of OpenRouter: no key goes to the default vendor', async () => {
    const router = await otherProvider({ validate: false })
    const server = await startTestServer({ agencies: soloAgency(), env: { OPENROUTER_BASE_URL: router.baseUrl } })
    const model = 'openrouter/meta/llama'

    const { status, body } = await ask(server, { model, thirdparty_keys: { openrouter: 'sk-or' } })
    const keyless = await ask(server, { model, api_key: 'sk-or' })

    expect([status, body.response]).toEqual([200, 'from the other provider'])
    expect(router.requests.map(({ model: asked, apiKey }) => [asked, apiKey])).toEqual([['meta/llama', 'sk-or']])
    expect([keyless.status, keyless.body.detail[0].msg]).toEqual([
      422,
      expect.stringContaining('thirdparty_keys.openrouter'),
    ])
    expect(server.provider.requests).toEqual([])
  })

  test.each(['litellm/ollama_chat/llama3', 'litellm/ollama/llama3', 'litellm/lm_studio/llama3'])(
    '%s is on a compatible server of the caller’s own',
    async (model) => {
      const own = await otherProvider()
      const server = await startTestServer({ agencies: soloAgency(), egress: { allow: ['127.0.0.1'] } })

      const { status, body } = await ask(server, { model, base_url: own.baseUrl, api_key: 'sk-own' })
      const named = { [model.split('/')[1]!]: 'sk-named' }
      await ask(server, { model, base_url: own.baseUrl, litellm_keys: named })
      const nowhere = await ask(server, { model })

      expect([status, body.response]).toEqual([200, 'from the other provider'])
      expect(own.requests.map(({ model: asked, apiKey }) => [asked, apiKey])).toEqual([
        ['llama3', 'sk-own'],
        ['llama3', 'sk-named'],
      ])
      expect([nowhere.status, nowhere.body.detail.map(({ loc }: Json) => loc.at(-1))]).toEqual([422, ['base_url']])
      expect(server.provider.requests).toEqual([])
    },
  )
})

/** A model of the user's own. */
class OwnModel implements ModelTransport {
  readonly name = 'gpt-4o'
  readonly requests: ResponsesRequest[] = []

  async request(...[request, { observer }]: Parameters<ModelTransport['request']>): Promise<void> {
    this.requests.push(request)
    const answer = new ResponseEventWriter(observer, request)
    answer.text('from my own model')
    answer.complete(null)
  }
}

const EVERYTHING = {
  model: 'gpt-other',
  api_key: 'sk-caller',
  default_headers: { 'x-team': 'blue' },
  thirdparty_keys: { anthropic: 'x' },
  model_settings_extra_args: { reasoning_effort: 'high', max_tokens: 5, anything: 1 },
}

describe('model objects', () => {
  test('are left as they are, and the run proceeds', async () => {
    const model = new OwnModel()
    const agency = soloAgency({ model, modelSettings: { temperature: 0.5 } })
    const server = await startTestServer({ agencies: agency, ...LOOPBACK })
    const theirs = await otherProvider()

    const { status, body } = await ask(server, { ...EVERYTHING, base_url: theirs.baseUrl })

    expect([status, body.response]).toEqual([200, 'from my own model'])
    const [request] = model.requests
    expect(request).toMatchObject({ model: 'gpt-4o', temperature: 0.5 })
    for (const member of ['anything', 'reasoning', 'max_output_tokens']) expect(request).not.toHaveProperty(member)
    expect([...theirs.requests, ...server.provider.requests]).toEqual([])
  })

  test('of the agents SDK are refused when the agent is made', async () => {
    const model = await new OpenAIProvider({ apiKey: 'sk' }).getModel('gpt-object')

    expect(() => soloAgency({ model: model as unknown as ModelTransport })).toThrow('the model object cannot be used')
  })
})

describe('tools that only the default vendor runs', () => {
  const hosted = [
    webSearchTool(),
    codeInterpreterTool(),
    hostedMcpTool({ serverLabel: 'docs', serverUrl: 'https://docs.example.com/mcp', headers: { 'x-key': 'sk-tool' } }),
  ]
  const echo = tool({ name: 'echo', description: 'Echoes.', parameters: z.object({}), execute: () => 'echo' })

  const kinds = (provider: FakeProvider): unknown =>
    (provider.requests[0]!.body as Json).tools.map((each: Json) => [
      each.type,
      each.name ?? each.function?.name ?? each.server_label,
    ])

  test('the operator’s provider gets them as they are', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [...hosted, echo] }) })
    server.provider.respond(() => text('ok'))

    await ask(server, { api_key: 'sk-caller' })

    expect((server.provider.requests[0]!.body as Json).tools.map((each: Json) => each.type)).toEqual([
      'web_search',
      'code_interpreter',
      'mcp',
      'function',
    ])
  })

  test('another address gets stand-ins that say what is missing, and none of their settings', async () => {
    const agency = soloAgency({ tools: [...hosted, echo], modelSettings: { toolChoice: 'web_search' } })
    const server = await startTestServer({ agencies: agency, ...LOOPBACK })
    const theirs = await otherProvider()
    theirs.respond(({ toolOutputs }) => text(toolOutputs[0]?.output ?? 'nothing'))
    theirs.script([toolCall('web_search')])

    const { body } = await ask(server, { base_url: theirs.baseUrl, api_key: 'sk-caller' })

    expect(kinds(theirs)).toEqual([
      ['function', 'web_search'],
      ['function', 'code_interpreter'],
      ['function', 'hosted_mcp_docs'],
      ['function', 'echo'],
    ])
    expect(theirs.requests[0]!.body['tool_choice']).toEqual({ type: 'function', name: 'web_search' })
    expect(body.response).toContain('web_search is not available for this request')
    expect(theirs.requests[0]!.bytes.toString()).not.toContain('sk-tool')
    expect(theirs.rejected).toEqual([])
  })

  test.each([
    ['Chat Completions', { OPENAI_API: 'chat_completions' }, {}],
    ['other vendors', {}, { model: 'thirdparty/openai_compatible/llama' }],
  ])('%s get the stand-ins too', async (_, env, more) => {
    const provider = await otherProvider()
    const server = await startTestServer({
      agencies: soloAgency({ tools: [...hosted, echo], ...more }),
      env: {
        OPENAI_BASE_URL: provider.baseUrl,
        OPENAI_COMPATIBLE_BASE_URL: provider.baseUrl,
        OPENAI_COMPATIBLE_API_KEY: 'sk-operator',
        ...env,
      },
    })

    expect((await ask(server, null)).status).toBe(200)

    expect(kinds(provider)).toEqual([
      ['function', 'web_search'],
      ['function', 'code_interpreter'],
      ['function', 'hosted_mcp_docs'],
      ['function', 'echo'],
    ])
  })

  test('the next request has the real tools again', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: hosted }), ...LOOPBACK })
    const theirs = await otherProvider()
    server.provider.respond(() => text('ok'))

    await Promise.all([ask(server, { base_url: theirs.baseUrl, api_key: 'sk-caller' }), ask(server, null)])

    expect((server.provider.requests[0]!.body as Json).tools[0].type).toBe('web_search')
  })
})
