import { z } from 'zod'
import { unsupportedParam } from '../openai/api-error.ts'
import {
  AllowedMode,
  ChoiceMode,
  COMMON_MEMBERS,
  FORMAT_MEMBERS,
  FUNCTION_MEMBERS,
  FunctionName,
  FunctionType,
  MAX_FUNCTIONS,
} from '../openai/caller-functions.ts'
import { parseBody } from '../openai/parse-body.ts'

const Tool = z.looseObject({ type: FunctionType, ...FUNCTION_MEMBERS })

const Named = z.looseObject({ type: z.literal('function'), name: FunctionName })

const ToolChoice = z.union([
  ChoiceMode,
  Named,
  z.looseObject({
    type: z.literal('allowed_tools'),
    mode: AllowedMode,
    tools: z.array(Named).min(1).max(MAX_FUNCTIONS),
  }),
])

const TextFormat = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text') }),
  z.looseObject({ type: z.literal('json_object') }),
  z.looseObject({ type: z.literal('json_schema'), ...FORMAT_MEMBERS }),
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
    ...COMMON_MEMBERS,
    input: z
      .union([z.string(), z.array(z.unknown()).max(20_000)])
      .nullish()
      .describe('What the user says, or items, the newest last.'),
    instructions: z.string().nullish().describe('Added to those of the agent.'),
    previous_response_id: z.string().max(128).nullish(),
    tools: z.array(Tool).max(MAX_FUNCTIONS).nullish().describe('Functions that the caller carries out.'),
    tool_choice: ToolChoice.nullish(),
    text: z.looseObject({ format: TextFormat.nullish() }).nullish(),
    max_output_tokens: z.int().min(16).nullish(),
    metadata: Metadata.nullish(),
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
