import type { RunEnded, Usage, WireItem } from '@bureau/protocol'
import { z } from 'zod'
import type { ResponseRecord } from './response-record.ts'

/** The response of Open Responses: every member is there, also those that only repeat the request. */
export const ResponseResource = z
  .looseObject({
    id: z.string(),
    object: z.literal('response'),
    created_at: z.int(),
    status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
    model: z.string(),
    output: z.array(z.looseObject({ type: z.string() })),
  })
  .meta({ id: 'OpenAIResponse' })
export type ResponseResource = z.output<typeof ResponseResource>

/** How far a response is. */
type ResponseState = Pick<ResponseResource, 'status'> & {
  readonly output: readonly WireItem[]
  readonly ended?: RunEnded
  /** Why it is incomplete. */
  readonly reason?: string
}

/** Makes the resource of one response, whatever its state. */
export type DescribeResponse = (state: ResponseState) => ResponseResource

type Described = Pick<ResponseRecord, 'id' | 'model' | 'isKept' | 'createdAt' | 'request'>

/**
 * `instructions` are those of the caller: nobody is shown those of an agent.
 *
 * @param endedAt - When the run has ended, in seconds since the epoch. Absent: it has not, and ends when that is seen.
 */
export function responseDescriber(
  { id, model, isKept, createdAt, request }: Described,
  endedAt?: number,
): DescribeResponse {
  const repeated = Object.entries(REPEATED).map(([name, usual]) => [name, request[name] ?? usual] as const)
  const echo = {
    ...Object.fromEntries(repeated),
    model,
    tools: (request.tools ?? []).map(({ name, description = null, parameters = null, strict }) => ({
      type: 'function',
      name,
      description,
      parameters,
      strict: strict ?? false,
    })),
    text: { ...request.text, format: request.text?.format ?? { type: 'text' } },
    reasoning: { effort: null, summary: null, ...request.reasoning },
    top_logprobs: 0,
    store: isKept,
  }
  return ({ status, output, ended, reason }) => ({
    id,
    object: 'response',
    created_at: createdAt,
    completed_at: status === 'completed' ? (endedAt ?? nowSeconds()) : null,
    status,
    error: ended?.error && status === 'failed' ? { code: ended.error.code, message: ended.error.message } : null,
    incomplete_details: status === 'incomplete' ? { reason: reason ?? 'max_output_tokens' } : null,
    output: output as ResponseResource['output'],
    usage: ended?.usage ? usageOf(ended.usage) : null,
    ...echo,
  })
}

/** Members of the request that are repeated, and their values where the request has none. */
const REPEATED = {
  previous_response_id: null,
  instructions: null,
  tool_choice: 'auto',
  truncation: 'disabled',
  parallel_tool_calls: true,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  temperature: 1,
  max_output_tokens: null,
  max_tool_calls: null,
  background: false,
  service_tier: 'default',
  metadata: {},
  safety_identifier: null,
  prompt_cache_key: null,
} as const

export const nowSeconds = (): number => Math.floor(Date.now() / 1_000)

/** The usage of the whole run. `cost` is in US dollars. */
function usageOf(usage: Usage): object {
  return {
    input_tokens: usage.input_tokens,
    input_tokens_details: { cached_tokens: usage.cached_tokens },
    output_tokens: usage.output_tokens,
    output_tokens_details: { reasoning_tokens: usage.reasoning_tokens ?? 0 },
    total_tokens: usage.total_tokens,
    cost: usage.total_cost,
  }
}
