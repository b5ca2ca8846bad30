import { z } from 'zod'
import { unsupportedParam } from '../openai/api-error.ts'
import { FunctionName, MAX_FUNCTIONS, Parameters } from '../openai/caller-functions.ts'
import { parseBody } from '../openai/parse-body.ts'

const Named = z.looseObject({ type: z.literal('function'), name: FunctionName })

const Tool = Named.extend({
  type: z.literal('function', 'only function tools are taken: the agent has its own'),
  description: z.string().nullish(),
  parameters: Parameters.nullish(),
  strict: z.boolean().nullish(),
})

const ToolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  Named,
  z.looseObject({
    type: z.literal('allowed_tools'),
    mode: z.enum(['auto', 'required']),
    tools: z.array(Named).min(1).max(MAX_FUNCTIONS),
  }),
])

const TextFormat = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text') }),
  z.looseObject({ type: z.literal('json_object') }),
  z.looseObject({
    type: z.literal('json_schema'),
    name: FunctionName,
    schema: z.looseObject({}),
    strict: z.boolean().nullish(),
  }),
])

const Metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine((pairs) => Object.keys(pairs).length <= 16, 'there may be at most 16 pairs')

const flag = z.boolean().nullish()
const number = z.number().nullish()

/**
 * Body of `POST /openai/v1/responses`. What an agent's author decides, such as its temperature, is repeated in the response
 * and not used.
 */
export const ResponsesRequest = z
  .looseObject({
    model: z.string().max(512).nullish().describe('An agency, or agency/agent.'),
    input: z
      .union([z.string(), z.array(z.unknown()).max(20_000)])
      .nullish()
      .describe('What the user says, or items, the newest last.'),
    instructions: z.string().nullish().describe('Added to those of the agent.'),
    previous_response_id: z.string().max(128).nullish(),
    tools: z.array(Tool).max(MAX_FUNCTIONS).nullish().describe('Functions that the caller carries out.'),
    tool_choice: ToolChoice.nullish(),
    parallel_tool_calls: flag,
    text: z.looseObject({ format: TextFormat.nullish() }).nullish(),
    max_output_tokens: z.int().min(16).nullish(),
    metadata: Metadata.nullish(),
    stream: flag,
    background: flag,
    store: flag,
    include: z
      .array(z.string().max(64))
      .max(32)
      .nullish()
      .describe('`bureau:steps`: the agents’ tool calls, messages and handoffs are items of the output.'),
    truncation: z.enum(['auto', 'disabled']).nullish(),
    reasoning: z.looseObject({}).nullish(),
    temperature: number,
    top_p: number,
    presence_penalty: number,
    frequency_penalty: number,
    top_logprobs: z.int().nullish(),
    max_tool_calls: z.int().min(1).nullish(),
    service_tier: z.string().max(64).nullish(),
    safety_identifier: z.string().max(64).nullish(),
    prompt_cache_key: z.string().max(64).nullish(),
    user: z.string().max(1_024).nullish().describe('Of the platform: the consumer that is charged.'),
    user_context: z
      .record(z.string(), z.unknown())
      .nullish()
      .describe('Readable by the agents’ tools; never in the prompt.'),
  })
  .meta({ id: 'OpenAIResponsesRequest' })
export type ResponsesRequest = z.output<typeof ResponsesRequest>

/** @throws ApiError 400 */
export function readResponsesRequest(body: unknown): ResponsesRequest {
  const request = parseBody(ResponsesRequest, body)
  if (request['conversation'] != null) throw unsupportedParam('conversation', 'send previous_response_id or all items')
  if (request['prompt'] != null) throw unsupportedParam('prompt', 'send instructions and input')
  if ((request.top_logprobs ?? 0) > 0) throw unsupportedParam('top_logprobs', 'not available')
  return request
}
