import { z } from 'zod'
import { unsupportedParam } from '../openai/api-error.ts'
import { FunctionName, MAX_FUNCTIONS, Parameters } from '../openai/caller-functions.ts'
import { parseBody } from '../openai/parse-body.ts'

const Named = z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: FunctionName }) })

const Tool = z.looseObject({
  type: z.literal('function', 'only function tools are taken: the agent has its own'),
  function: z.looseObject({
    name: FunctionName,
    description: z.string().nullish(),
    parameters: Parameters.nullish(),
    strict: z.boolean().nullish(),
  }),
})

const ToolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  Named,
  z.looseObject({
    type: z.literal('allowed_tools'),
    allowed_tools: z.looseObject({
      mode: z.enum(['auto', 'required']),
      tools: z.array(Named).min(1).max(MAX_FUNCTIONS),
    }),
  }),
])

const ResponseFormat = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text') }),
  z.looseObject({ type: z.literal('json_object') }),
  z.looseObject({
    type: z.literal('json_schema'),
    json_schema: z.looseObject({ name: FunctionName, schema: z.looseObject({}), strict: z.boolean().nullish() }),
  }),
])

/**
 * Body of `POST /openai/v1/chat/completions`. Of the API's other members some cannot be honoured and are refused
 * (`requirePossible`); the rest is the business of the agent's author, such as its temperature, and is ignored.
 */
export const ChatRequest = z
  .looseObject({
    model: z.string().max(512).nullish().describe('An agency, or agency/agent.'),
    messages: z.array(z.unknown()).min(1).max(20_000).describe('The whole conversation, the newest message last.'),
    stream: z.boolean().nullish(),
    stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
    tools: z.array(Tool).max(MAX_FUNCTIONS).nullish().describe('Functions that the caller carries out.'),
    tool_choice: ToolChoice.nullish(),
    parallel_tool_calls: z.boolean().nullish(),
    response_format: ResponseFormat.nullish(),
    max_completion_tokens: z.int().positive().nullish(),
    max_tokens: z.int().positive().nullish(),
    user: z.string().max(1_024).nullish().describe('Of the platform: the consumer that is charged.'),
    user_context: z
      .record(z.string(), z.unknown())
      .nullish()
      .describe('Readable by the agents’ tools; never in the prompt.'),
  })
  .meta({ id: 'ChatCompletionRequest' })
export type ChatRequest = z.output<typeof ChatRequest>

/** @throws ApiError 400 */
export function readChatRequest(body: unknown): ChatRequest {
  const request = parseBody(ChatRequest, body)
  requirePossible(request)
  return request
}

/** @throws ApiError 400: an answer without this would not be what was asked for. */
function requirePossible(request: ChatRequest): void {
  if (Number(request['n'] ?? 1) !== 1) throw unsupportedParam('n', 'an agent gives one answer')
  if (request['logprobs'] === true) throw unsupportedParam('logprobs', 'not available')
  if (request['audio'] != null) throw unsupportedParam('audio', 'agents answer in text')
  const { modalities } = request
  if (Array.isArray(modalities) && modalities.includes('audio')) {
    throw unsupportedParam('modalities', 'agents answer in text')
  }
  for (const old of ['functions', 'function_call']) {
    if (request[old] != null) throw unsupportedParam(old, 'send tools and tool_choice')
  }
}
