import type { ModelSettings } from '@openai/agents-core'
import { describe, expect, test } from 'vitest'
import { startFakeProvider, text } from '../support/fake-provider.ts'
import { closeAfterTest, type Json, soloAgency, startTestServer } from '../support/test-server.ts'

type Asked = { readonly body: Json; readonly headers: Record<string, unknown> }

/** What reaches the provider of an agent when a request brings these settings. */
async function sent(
  model_settings_extra_args: unknown,
  {
    env = {},
    model = 'gpt-x',
    modelSettings = {},
  }: { env?: object; model?: string; modelSettings?: ModelSettings } = {},
): Promise<Asked> {
  const provider = await startFakeProvider({ validate: false })
  closeAfterTest(() => provider.close())
  provider.respond(() => text('ok'))
  const address = { OPENAI_BASE_URL: provider.baseUrl, OPENAI_COMPATIBLE_BASE_URL: provider.baseUrl }
  const others = { ANTHROPIC_BASE_URL: provider.baseUrl, GEMINI_BASE_URL: provider.baseUrl }
  const keys = { ANTHROPIC_API_KEY: 'k', GEMINI_API_KEY: 'k', OPENAI_COMPATIBLE_API_KEY: 'k' }
  const server = await startTestServer({
    agencies: soloAgency({ model, modelSettings }),
    env: { ...address, ...others, ...keys, ...env },
  })
  await server.post('/solo/get_response', { message: 'hi', client_config: { model_settings_extra_args } })
  const [request] = provider.requests
  return { body: request!.body, headers: request!.headers }
}

describe('the Responses API', () => {
  test('reasoning_effort and reasoning_summary are laid over the reasoning of the agent', async () => {
    const modelSettings = { reasoning: { effort: 'low' as const } }

    const { body } = await sent({ reasoning_summary: 'auto' }, { modelSettings })
    const { body: second } = await sent({ reasoning_effort: 'high' }, { modelSettings })

    expect(body.reasoning).toEqual({ effort: 'low', summary: 'auto' })
    expect(second.reasoning).toEqual({ effort: 'high' })
  })

  test('include extends the list', async () => {
    const modelSettings = { providerData: { include: ['message.output_text.logprobs'] } }

    const { body } = await sent({ include: ['reasoning.encrypted_content'] }, { modelSettings })

    expect(body.include).toEqual(['message.output_text.logprobs', 'reasoning.encrypted_content'])
  })

  test('max_tokens is the limit of the output', async () => {
    const { body } = await sent({ max_tokens: 77 }, { modelSettings: { maxTokens: 5 } })

    expect(body.max_output_tokens).toBe(77)
    expect(body).not.toHaveProperty('max_tokens')
  })

  test('extra_body is merged, a reasoning object inside it too', async () => {
    const { body } = await sent({
      reasoning_summary: 'auto',
      extra_body: { reasoning: { effort: 'minimal' }, service_tier: 'flex', include: ['a'] },
    })

    expect(body).toMatchObject({
      reasoning: { effort: 'minimal', summary: 'auto' },
      service_tier: 'flex',
      include: ['a'],
    })
    expect(body).not.toHaveProperty('extra_body')
  })

  test('everything else is passed on as it is', async () => {
    const { body } = await sent({ temperature: 0.3, top_p: 0.5, user: 'me', unheard_of: { a: [1] } })

    expect(body).toMatchObject({ temperature: 0.3, top_p: 0.5, user: 'me', unheard_of: { a: [1] } })
  })

  test('extra_headers are headers; what belongs to a client library goes nowhere', async () => {
    const { body, headers } = await sent({ extra_headers: { 'X-Trace': '7' }, extra_query: { a: 'b' }, timeout: 3 })

    expect(headers['x-trace']).toBe('7')
    expect(Object.keys(body).toSorted()).toEqual(['input', 'instructions', 'model', 'stream'])
  })

  test('nulls count as absent', async () => {
    const { body } = await sent({
      reasoning_effort: null,
      max_tokens: null,
      include: null,
      extra_body: null,
      user: null,
    })

    expect(Object.keys(body).toSorted()).toEqual(['input', 'instructions', 'model', 'stream'])
  })

  test('what the run is made of cannot be replaced', async () => {
    const mine = { input: 'mine', instructions: 'mine', model: 'mine', tools: [], stream: false, background: true }

    const { body } = await sent({ ...mine, extra_body: mine, previous_response_id: 'resp_1', conversation: 'conv_1' })

    expect(body).toEqual({
      model: 'gpt-x',
      instructions: 'You are the secret instructions.',
      input: [{ role: 'user', content: 'hi' }],
      stream: true,
    })
  })
})

test('Chat Completions: the same settings in that API’s words', async () => {
  const { body } = await sent(
    { reasoning_effort: 'low', max_tokens: 9, extra_body: { top_k: 4 }, seed: 3 },
    { env: { OPENAI_API: 'chat_completions' } },
  )

  expect(body).toMatchObject({ reasoning_effort: 'low', max_tokens: 9, top_k: 4, seed: 3 })
})

describe('thirdparty/... models', () => {
  test('a compatible server gets members of the body as they are', async () => {
    const { body, headers } = await sent(
      {
        reasoning_effort: 'low',
        max_tokens: 9,
        temperature: 0.1,
        stop: 'END',
        extra_body: { chat_template_kwargs: { enable_thinking: false } },
        extra_headers: { 'x-trace': '7' },
      },
      { model: 'thirdparty/openai_compatible/llama' },
    )

    expect(body).toMatchObject({
      model: 'llama',
      reasoning_effort: 'low',
      max_tokens: 9,
      temperature: 0.1,
      stop: ['END'],
      chat_template_kwargs: { enable_thinking: false },
    })
    expect(headers['x-trace']).toBe('7')
  })

  test.each([
    ['thinking_budget', { thinking_budget: 2048 }],
    ['its own words', { thinking: { type: 'enabled', budget_tokens: 2048 } }],
  ])('anthropic: thinking by %s', async (_, settings) => {
    const { body } = await sent({ ...settings, top_k: 5 }, { model: 'thirdparty/anthropic/claude-sonnet-4-5' })

    expect(body.thinking).toMatchObject({ type: 'enabled', budget_tokens: 2048 })
  })

  test('google: thinking_budget and thinking_level', async () => {
    const budget = await sent({ thinking_budget: 512, top_k: 5 }, { model: 'thirdparty/gemini/gemini-2.5-pro' })
    const level = await sent({ thinking_level: 'low' }, { model: 'thirdparty/google/gemini-3-pro' })

    expect(budget.body.generationConfig).toMatchObject({ thinkingConfig: { thinkingBudget: 512 }, topK: 5 })
    expect(level.body.generationConfig).toMatchObject({ thinkingConfig: { thinkingLevel: 'low' } })
  })
})
