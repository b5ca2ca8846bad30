import { describe, expect, test } from 'vitest'
import fc from 'fast-check'
import { calcPrice } from '@pydantic/genai-prices'
import { NO_USAGE, type Usage } from '@bureau/protocol'
import { costOfResponse, usageOfRealtimeResponse, usageOfResponse } from './pricing.ts'

const usage = (tokens: Partial<Usage>): Usage => ({ ...NO_USAGE, ...tokens })
const million = 1e-6
const costOf = (model: string, tokens: Partial<Usage>): number =>
  costOfResponse({ model, usage: usage(tokens) }).costUsd

describe('costOfResponse', () => {
  test('charges cached input at its own price', () => {
    const cost = costOf('gpt-4o-mini', { input_tokens: 100, cached_tokens: 20, output_tokens: 30 })
    expect(cost).toBeCloseTo((80 * 0.15 + 20 * 0.075 + 30 * 0.6) * million, 12)
  })

  test('charges what is written to a cache at its own price, and at the input price where there is none', () => {
    const tokens = { input_tokens: 100, cached_tokens: 20, cache_write_tokens: 30 }

    expect(costOf('claude-sonnet-4-5', tokens)).toBeCloseTo((50 * 3 + 20 * 0.3 + 30 * 3.75) * million, 12)
    expect(costOf('gpt-4o-mini', tokens)).toBeCloseTo((80 * 0.15 + 20 * 0.075) * million, 12)
  })

  test('changes to the dearer tier only above its start, by the input of this answer', () => {
    const output = { output_tokens: 1_000, cached_tokens: 1_000 }

    const below = costOf('claude-sonnet-4-5', { input_tokens: 200_000, ...output })
    expect(below).toBeCloseTo((199_000 * 3 + 1_000 * 0.3 + 1_000 * 15) * million, 12)
    const above = costOf('claude-sonnet-4-5', { input_tokens: 200_001, ...output })
    expect(above).toBeCloseTo((199_001 * 6 + 1_000 * 0.6 + 1_000 * 22.5) * million, 12)
  })

  test('counts reasoning as output, and beside it where it has a price of its own', () => {
    const tokens = { output_tokens: 30, reasoning_tokens: 10 }

    expect(costOf('gpt-5', tokens)).toBeCloseTo(30 * 10 * million, 12)
    expect(costOf('perplexity/sonar-deep-research', tokens)).toBeCloseTo((30 * 8 + 10 * 3) * million, 12)
  })

  test.each(['gpt-4o-mini', 'gpt-5', 'claude-3-5-haiku-latest'])(
    'says what the price list says for %s, whatever kinds of tokens there are',
    (model) => {
      const tokens = { input_tokens: 1_000, cached_tokens: 300, cache_write_tokens: 200, output_tokens: 70 }
      const listed = calcPrice(
        { input_tokens: 1_000, cache_read_tokens: 300, cache_write_tokens: 200, output_tokens: 70 },
        model,
      )

      expect(costOf(model, tokens)).toBeCloseTo(listed!.total_price, 12)
    },
  )

  test.each([
    'gpt-4o-mini',
    'openai/gpt-4o-mini',
    'gpt-4o-mini-2024-07-18',
    'gpt-4o-mini-2031-01-31',
    'thirdparty/openai/gpt-4o-mini',
    'some-gateway/region/gpt-4o-mini',
    'gpt-4o-mini-custom',
  ])('finds the price of %s', (model) => {
    expect(costOf(model, { input_tokens: 1_000_000 })).toBeCloseTo(0.15, 9)
  })

  test('has no price for a name that is longer than any', () => {
    const long = `${'x'.repeat(1_000)}/gpt-4o-mini`

    expect(costOfResponse({ model: long, usage: usage({ input_tokens: 5 }) })).toEqual({ costUsd: 0, priced: false })
  })

  test('takes the price of the provider that serves the model', () => {
    const tokens = usage({ input_tokens: 1_000 })
    const named = costOfResponse({ model: 'anthropic/claude-sonnet-4.5', provider: 'openrouter', usage: tokens })
    const prefixed = costOfResponse({ model: 'thirdparty/openrouter/anthropic/claude-sonnet-4.5', usage: tokens })

    expect(named).toEqual({ costUsd: 0.003, priced: true })
    expect(prefixed).toEqual(named)
    expect(costOfResponse({ model: 'gpt-5', provider: 'no-such-provider', usage: tokens }).priced).toBe(true)
  })

  test.each(['demo', 'my-own-model', '', '/', 'thirdparty/'])('says that it knows no price of %j', (model) => {
    expect(costOfResponse({ model, usage: usage({ input_tokens: 1_000 }) })).toEqual({ costUsd: 0, priced: false })
  })

  test('takes no more from the cache than was sent', () => {
    const all = costOf('gpt-4o-mini', { input_tokens: 100, cached_tokens: 100 })
    expect(costOf('gpt-4o-mini', { input_tokens: 100, cached_tokens: 500, cache_write_tokens: 500 })).toBe(all)
  })

  test('is a finite amount for every usage and name', () => {
    const count = fc.oneof(fc.integer(), fc.double())
    const names = fc.oneof(fc.constantFrom('gpt-5', 'claude-sonnet-4-5', 'perplexity/sonar-deep-research'), fc.string())
    const counts = fc.record({
      input_tokens: count,
      output_tokens: count,
      cached_tokens: count,
      cache_write_tokens: count,
      reasoning_tokens: count,
    })
    fc.assert(
      fc.property(names, fc.option(names, { nil: undefined }), counts, (model, provider, tokens) => {
        const request = { model, usage: usage(tokens), ...(provider !== undefined && { provider }) }
        const { costUsd, priced } = costOfResponse(request)
        expect(costUsd).toBeGreaterThanOrEqual(0)
        expect(Number.isFinite(costUsd)).toBe(true)
        expect(priced || costUsd === 0).toBe(true)
      }),
    )
  })
})

describe('usageOfResponse', () => {
  test('reads the usage of a response', () => {
    const raw = {
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 20, cache_write_tokens: 5 },
      output_tokens: 30,
      output_tokens_details: { reasoning_tokens: 10 },
      total_tokens: 130,
    }

    expect(usageOfResponse(raw)).toEqual({
      request_count: 1,
      cached_tokens: 20,
      cache_write_tokens: 5,
      input_tokens: 100,
      output_tokens: 30,
      total_tokens: 130,
      total_cost: 0,
      reasoning_tokens: 10,
    })
  })

  test('speaks of reasoning only when there was some', () => {
    const raw = { input_tokens: 1, output_tokens: 2, output_tokens_details: { reasoning_tokens: 0 } }
    expect(usageOfResponse(raw)).not.toHaveProperty('reasoning_tokens')
  })

  test('fills in a missing total', () => {
    expect(usageOfResponse({ input_tokens: 1, output_tokens: 2 })).toMatchObject({ total_tokens: 3 })
  })

  test.each([
    undefined,
    null,
    'usage',
    [],
    { input_tokens: -1, output_tokens: Number.NaN, input_tokens_details: null },
  ])('is one request without tokens for %j', (raw) => {
    expect(usageOfResponse(raw)).toEqual({ ...NO_USAGE, request_count: 1 })
  })
})

describe('usageOfRealtimeResponse', () => {
  const spoken = {
    total_tokens: 150,
    input_tokens: 100,
    output_tokens: 50,
    input_token_details: {
      text_tokens: 40,
      audio_tokens: 60,
      cached_tokens: 20,
      cached_tokens_details: { text_tokens: 10, audio_tokens: 10 },
    },
    output_token_details: { text_tokens: 10, audio_tokens: 40 },
  }

  test('charges audio and text at their own prices, cached or not', () => {
    const { usage: counted, priced } = usageOfRealtimeResponse('gpt-realtime', spoken)

    expect(counted).toMatchObject({ request_count: 1, input_tokens: 100, cached_tokens: 20, output_tokens: 50 })
    const text = 30 * 4 + 10 * 0.4 + 10 * 16
    const audio = 50 * 32 + 10 * 0.4 + 40 * 64
    expect(counted.total_cost).toBeCloseTo((text + audio) * million, 12)
    expect(priced).toBe(true)
  })

  test.each([
    ['details that cannot be', { ...spoken, input_token_details: { audio_tokens: 5_000 }, output_token_details: 7 }],
    ['no details', { total_tokens: 150, input_tokens: 100, output_tokens: 50 }],
  ])('counts everything as text: %s', (_, raw) => {
    const { usage: counted } = usageOfRealtimeResponse('gpt-realtime', raw)

    expect(counted).toMatchObject({ input_tokens: 100, output_tokens: 50, total_tokens: 150 })
    expect(counted.total_cost).toBeCloseTo((100 * 4 + 50 * 16) * million, 12)
  })

  test.each([undefined, null, 'x', []])('is one request without tokens for %j', (raw) => {
    expect(usageOfRealtimeResponse('no-such-model', raw)).toEqual({ usage: usage({ request_count: 1 }), priced: false })
  })
})
