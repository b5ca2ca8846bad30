import { z } from 'zod'

/** Tokens and estimated US dollars of one run, exactly as they go over the wire (seed, "usage object"). */
export const Usage = z
  .object({
    request_count: z.number().int().describe('Number of model requests.'),
    cached_tokens: z.number().int().describe('Input tokens served from a cache.'),
    cache_write_tokens: z.number().int().describe('Input tokens written to a cache.'),
    input_tokens: z.number().int().describe('Tokens sent to the model, cached ones included.'),
    output_tokens: z.number().int().describe('Tokens generated, reasoning included.'),
    total_tokens: z.number().int(),
    total_cost: z.number().describe('Estimated cost in USD; 0 where the price of a model is unknown.'),
    reasoning_tokens: z.number().int().optional().describe('Reasoning tokens, when there were any.'),
    estimated: z
      .boolean()
      .optional()
      .describe(
        'True: the provider has not reported the usage of some request (it may have been cut off), so it is estimated.',
      ),
  })
  .meta({ id: 'Usage' })
export type Usage = z.infer<typeof Usage>

export const NO_USAGE: Usage = Object.freeze({
  request_count: 0,
  cached_tokens: 0,
  cache_write_tokens: 0,
  input_tokens: 0,
  output_tokens: 0,
  total_tokens: 0,
  total_cost: 0,
})

/** What one agent spent on one model within a run. */
export const UsageByModel = z.object({ agent: z.string(), model: z.string(), priced: z.boolean(), usage: Usage })
export type UsageByModel = z.infer<typeof UsageByModel>

/** Adds two usages. Costs are rounded to a ten-billionth of a dollar, so that sums do not collect float noise. */
export function addUsage(a: Usage, b: Usage): Usage {
  const reasoning = (a.reasoning_tokens ?? 0) + (b.reasoning_tokens ?? 0)
  return {
    request_count: a.request_count + b.request_count,
    cached_tokens: a.cached_tokens + b.cached_tokens,
    cache_write_tokens: a.cache_write_tokens + b.cache_write_tokens,
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
    total_cost: Math.round((a.total_cost + b.total_cost) * 1e10) / 1e10,
    ...(reasoning > 0 && { reasoning_tokens: reasoning }),
    ...((a.estimated || b.estimated) && { estimated: true }),
  }
}
