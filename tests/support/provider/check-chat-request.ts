import { checkStrictSchema, checkTools } from './check-tools.ts'
import { isJsonObject, jsonObjects, type JsonObject } from './json-object.ts'
import { invalidType, invalidValue, missingParameter, ProviderError, unknownParameter } from './provider-error.ts'
import type { RecordedRequest } from './recorded-request.ts'

/**
 * Refuses what `POST /v1/chat/completions` of the real service refuses.
 *
 * @throws ProviderError
 */
export function checkChatRequest({ body, stream }: RecordedRequest): void {
  const unknown = Object.keys(body).find((key) => !PARAMETERS.has(key))
  if (unknown) throw unknownParameter(unknown)
  if (typeof body['model'] !== 'string') throw missingParameter('model')
  if (!Array.isArray(body['messages'])) throw missingParameter('messages')
  if (body['stream_options'] && !stream) {
    const message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    throw new ProviderError(message, { param: 'stream_options' })
  }
  checkTools(body['tools'], (tool) => tool['function'])
  checkResponseFormat(body)
  checkMessages(body['messages'])
}

function checkResponseFormat({ response_format: format }: JsonObject): void {
  const schema = isJsonObject(format) ? format['json_schema'] : undefined
  if (!isJsonObject(schema) || schema['strict'] !== true) return
  checkStrictSchema(schema['schema'], `response_format '${String(schema['name'])}'`, 'response_format')
}

function checkMessages(messages: readonly unknown[]): void {
  const open = new Set<string>()
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}]`
    if (!isJsonObject(message)) throw invalidType(path, 'an object')
    checkMessage(message, path)
    if (message['role'] === 'tool') {
      if (!open.delete(String(message['tool_call_id']))) throw strayToolMessage(index)
      continue
    }
    requireAnswered(open)
    for (const call of jsonObjects(message['tool_calls'])) open.add(String(call['id']))
  }
  requireAnswered(open)
}

function checkMessage(message: JsonObject, path: string): void {
  const role = String(message['role'])
  const fields = FIELDS[role]
  if (!fields) throw invalidValue(`${path}.role`, role, Object.keys(FIELDS))
  const unknown = Object.keys(message).find((key) => !fields.includes(key))
  if (unknown) throw unknownParameter(`${path}.${unknown}`)
  if (role === 'tool' && typeof message['tool_call_id'] !== 'string') throw missingParameter(`${path}.tool_call_id`)
  const { content } = message
  const optional = role === 'assistant' && (jsonObjects(message['tool_calls']).length > 0 || 'refusal' in message)
  if (typeof content === 'string' || Array.isArray(content) || (optional && (content ?? null) === null)) return
  throw invalidType(`${path}.content`, 'one of a string or array of objects')
}

const strayToolMessage = (index: number): ProviderError =>
  new ProviderError("messages with role 'tool' must be a response to a preceding message with 'tool_calls'.", {
    param: `messages.[${index}].role`,
  })

function requireAnswered(open: ReadonlySet<string>): void {
  if (open.size === 0) return
  const rule = "An assistant message with 'tool_calls' must be followed by tool messages for each 'tool_call_id'."
  const message = `${rule} The following tool_call_ids did not have response messages: ${[...open].join(', ')}`
  throw new ProviderError(message, { param: 'messages' })
}

const FIELDS: Readonly<Record<string, readonly string[]>> = {
  system: ['role', 'content', 'name'],
  developer: ['role', 'content', 'name'],
  user: ['role', 'content', 'name'],
  assistant: ['role', 'content', 'name', 'audio', 'function_call', 'refusal', 'tool_calls'],
  tool: ['role', 'content', 'tool_call_id'],
}

const PARAMETERS: ReadonlySet<string> = new Set(
  `messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens
  metadata modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key
  prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier
  stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity
  web_search_options`.split(/\s+/),
)
