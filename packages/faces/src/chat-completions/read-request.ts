import { z } from 'zod'
import { unsupportedParam } from '../openai/api-error.ts'
import { NO_MESSAGE } from '../openai/conversation.ts'
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

/** What the Responses API has flat lies in an object of its own here; it is read as that API has it. */
const Tool = z
  .looseObject({ type: FunctionType, function: z.looseObject(FUNCTION_MEMBERS) })
  .transform((tool) => tool.function)

const Named = z
  .looseObject({ type: z.literal('function'), function: z.looseObject({ name: FunctionName }) })
  .transform((tool) => ({ type: 'function' as const, name: tool.function.name }))

const ToolChoice = z.union([
  ChoiceMode,
  Named,
  z
    .looseObject({
      type: z.literal('allowed_tools'),
      allowed_tools: z.looseObject({ mode: AllowedMode, tools: z.array(Named).min(1).max(MAX_FUNCTIONS) }),
    })
    .transform(({ type, allowed_tools: { mode, tools } }) => ({ type, mode, tools })),
])

const ResponseFormat = z
  .discriminatedUnion('type', [
    z.looseObject({ type: z.literal('text') }),
    z.looseObject({ type: z.literal('json_object') }),
    z.looseObject({ type: z.literal('json_schema'), json_schema: z.looseObject(FORMAT_MEMBERS) }),
  ])
  .transform((format) => (format.type === 'json_schema' ? { ...format.json_schema, type: format.type } : format))

/**
 * Body of `POST /openai/v1/chat/completions`. Of the API's other members some cannot be honoured and are refused
 * (`requirePossible`); the rest is the business of the agent's author, such as its temperature, and is ignored.
 */
export const ChatRequest = z
  .looseObject({
    ...COMMON_MEMBERS,
    messages: z
      .array(z.unknown(), { error: ({ input }) => (input === undefined ? NO_MESSAGE : 'must be a list') })
      .min(1, NO_MESSAGE)
      .max(20_000)
      .describe('The whole conversation, the newest message last.'),
    stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
    tools: z.array(Tool).max(MAX_FUNCTIONS).nullish().describe('Functions that the caller carries out.'),
    tool_choice: ToolChoice.nullish(),
    response_format: ResponseFormat.nullish(),
    max_completion_tokens: z.int().positive().nullish(),
    max_tokens: z.int().positive().nullish(),
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
