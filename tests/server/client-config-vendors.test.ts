import { Agency, Agent } from '@bureau/framework'
import { createApp, loadConfig } from '@bureau/server'
import { describe, expect, test } from 'vitest'
import { type FakeProvider, startFakeProvider, text } from '../support/fake-provider.ts'
import { closeAfterTest, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const KEYS = { ANTHROPIC_API_KEY: 'sk-operator', OPENROUTER_API_KEY: 'sk-operator' }

/** A provider of the models of other vendors, at the addresses that the operator has configured. */
async function otherVendors(): Promise<{ provider: FakeProvider; env: Record<string, string> }> {
  const provider = await startFakeProvider({ validate: false })
  closeAfterTest(() => provider.close())
  provider.respond(() => text('from another vendor'))
  const env = { ...KEYS, ANTHROPIC_BASE_URL: provider.baseUrl, OPENROUTER_BASE_URL: provider.baseUrl }
  return { provider, env }
}

const ask = (server: TestServer, client_config: object) =>
  server.post('/solo/get_response', { message: 'hi', client_config })

describe("models of vendors that no agency uses are not for the operator's money", () => {
  test.each([
    ['thirdparty/anthropic/claude-x', 'anthropic', 'thirdparty_keys.anthropic'],
    ['litellm/anthropic/claude-x', 'anthropic', 'thirdparty_keys.anthropic'],
    ['thirdparty/gemini/gemini-x', 'google', 'thirdparty_keys.google'],
    ['thirdparty/openrouter/anthropic/claude-x', 'openrouter', 'thirdparty_keys.openrouter'],
    ['thirdparty/openai-compatible/llama', 'openai_compatible', 'thirdparty_keys.openai_compatible'],
  ])('422 for %s, naming the vendor and the key to send', async (model, vendor, key) => {
    const { provider, env } = await otherVendors()
    const server = await startTestServer({ agencies: soloAgency(), env })

    for (const path of ['get_response', 'get_response_stream']) {
      const body = { message: 'hi', client_config: { model } }
      const { status, body: answer } = await server.post(`/solo/${path}`, body)
      expect(status).toBe(422)
      expect(answer.detail[0].loc).toEqual(['body', 'client_config', 'model'])
      expect(answer.detail[0].msg).toContain(`not of '${vendor}'. Send a key of your own in ${key}`)
    }
    // Keys that are none change nothing either, under any name.
    for (const none of ['', ' ', null]) {
      const keys = { [vendor]: none }
      const { status } = await ask(server, { model, api_key: none, thirdparty_keys: keys, litellm_keys: keys })
      expect(status).toBe(422)
    }
    // Keys of others change nothing.
    const others = { api_key: 'sk-caller', thirdparty_keys: { mistral: 'sk-caller' } }
    const expected = vendor === 'openai_compatible' ? 500 : 422
    expect((await ask(server, { model, ...others })).status).toBe(expected)
    expect([provider.requests, server.provider.requests]).toEqual([[], []])
  })

  test.each(['gpt-x', 'openai/gpt-x', 'thirdparty/openai/gpt-x'])(
    '422 for %s when the agencies have models of another vendor only',
    async (model) => {
      const { env } = await otherVendors()
      const server = await startTestServer({ agencies: soloAgency({ model: 'thirdparty/anthropic/claude-x' }), env })
      const { status, body } = await ask(server, { model })
      expect(status).toBe(422)
      expect(body.detail[0].msg).toContain(
        "offers models of anthropic, but not of 'openai'. Send a key of your own in api_key",
      )
    },
  )

  test('AG-UI has the same rule', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: KEYS, enableAgui: true })
    const messages = [{ id: 'u1', role: 'user', content: 'hi' }]
    const run = { threadId: 't', runId: 'r', state: {}, messages, tools: [], context: [], forwardedProps: {} }
    const client_config = { model: 'thirdparty/anthropic/claude-x' }
    const { status, text: answer } = await server.post('/solo/get_response_stream', { ...run, client_config })
    expect(status).toBe(422)
    expect(answer).toContain("not of 'anthropic'")
  })
})

describe('what may be chosen', () => {
  test("a vendor of any agent of any agency, by either of the vendor's names", async () => {
    const { provider, env } = await otherVendors()
    const other = new Agent({ name: 'Other', instructions: 'x', model: 'litellm/openrouter/llama' })
    const agencies = { ...soloAgency(), other: new Agency({ entryPoint: other }) }
    const server = await startTestServer({ agencies, env })

    expect((await ask(server, { model: 'thirdparty/openrouter/qwen' })).status).toBe(200)
    expect(provider.requests.map(({ model, apiKey }) => [model, apiKey])).toEqual([['qwen', 'sk-operator']])
  })

  test('the vendor of the model that agents have by default', async () => {
    const { provider, env } = await otherVendors()
    const byDefault = { BUREAU_MODEL: 'thirdparty/openrouter/llama' }
    const server = await startTestServer({ agencies: soloAgency({ model: '' }), env: { ...env, ...byDefault } })
    expect((await ask(server, { model: 'thirdparty/openrouter/qwen' })).status).toBe(200)
    expect(provider.requests).toHaveLength(1)
  })

  test('any vendor with a key of the caller, which is the one that is used', async () => {
    const { provider, env } = await otherVendors()
    const server = await startTestServer({ agencies: soloAgency(), env })
    const model = 'thirdparty/openrouter/llama'

    expect((await ask(server, { model, thirdparty_keys: { openrouter: 'sk-caller' } })).status).toBe(200)
    expect((await ask(server, { model, litellm_keys: { openrouter: 'sk-caller' } })).status).toBe(200)

    expect(provider.requests.map(({ apiKey }) => apiKey)).toEqual(['sk-caller', 'sk-caller'])
  })

  test("any vendor at an address of the caller, which never gets the operator's key", async () => {
    const { provider, env } = await otherVendors()
    const egress = { allow: ['127.0.0.1'] }
    const server = await startTestServer({ agencies: soloAgency(), env, egress })
    for (const model of [
      'thirdparty/openrouter/llama',
      'thirdparty/openai_compatible/llama',
      'thirdparty/openai/x',
      'x',
    ]) {
      await ask(server, { model, base_url: provider.baseUrl, thirdparty_keys: { openrouter: 'sk-caller' } })
    }
    expect(provider.requests.map(({ apiKey }) => apiKey)).toEqual(['sk-caller', null, null, null])
    expect(JSON.stringify(provider.requests.map(({ headers }) => headers))).not.toMatch(/sk-(?:operator|server)/)
    expect(server.provider.requests).toEqual([])
  })

  test('the demo model, which costs nothing', async () => {
    const server = await startTestServer({ agencies: soloAgency({ model: 'thirdparty/anthropic/claude-x' }) })
    expect((await ask(server, { model: 'demo' })).status).toBe(200)
  })

  test('what clientConfigVendors lists, and nothing else', async () => {
    const { provider, env } = await otherVendors()
    const server = await startTestServer({ agencies: soloAgency(), env, clientConfigVendors: ['openrouter'] })

    expect((await ask(server, { model: 'thirdparty/openrouter/llama' })).status).toBe(200)
    expect((await ask(server, { model: 'gpt-other' })).status).toBe(422)
    expect(provider.requests).toHaveLength(1)

    server.provider.respond(() => text('its own model'))
    expect((await ask(server, { model: null })).body.response).toBe('its own model')
  })

  test('ConfigError for a vendor that does not exist', async () => {
    const options = { agencies: soloAgency(), clientConfigVendors: ['openia'], logLevel: 'silent' } as const
    await expect(createApp(options, loadConfig({}))).rejects.toThrow(
      'clientConfigVendors: there is no vendor "openia". Vendors: openai, anthropic,',
    )
  })
})
