import { isJsonObject, jsonObjects, stringOr, type JsonObject } from './json-object.ts'
import type { IssuedItems } from './issued-items.ts'
import { invalidType, invalidValue, missingParameter, ProviderError, unknownParameter } from './provider-error.ts'

/**
 * Refuses the `input` items that the real Responses API refuses.
 *
 * @throws ProviderError for unknown fields, ids of the wrong kind, calls without results and the reverse,
 *   reasoning without what followed it, repeated ids, and items that were never stored.
 */
export function checkInputItems(input: unknown, issued: IssuedItems): void {
  if (typeof input === 'string') return
  if (!Array.isArray(input)) throw invalidType('input', 'one of an array of objects or a string')
  for (const [index, item] of input.entries()) {
    if (!isJsonObject(item)) throw invalidType(`input[${index}]`, 'an object')
    checkShape(item, `input[${index}]`, issued)
  }
  const items = jsonObjects(input)
  checkPairs(items)
  checkReasoning(items, issued)
  checkIds(items, issued)
}

function checkShape(item: JsonObject, path: string, issued: IssuedItems): void {
  const type = stringOr(item['type'], 'message')
  const shape = Object.hasOwn(ITEM_SHAPES, type) ? ITEM_SHAPES[type] : undefined
  const keys = shape ? new Set([...shape.required, ...shape.optional, 'type']) : issued.keysOf(type)
  if (!keys) throw invalidValue(`${path}.type`, type, Object.keys(ITEM_SHAPES))
  const unknown = Object.keys(item).find((key) => !keys.has(key))
  if (unknown) throw unknownParameter(`${path}.${unknown}`)
  if (!shape) return
  const missing = shape.required.find((key) => item[key] === undefined || (item[key] === null && key.endsWith('id')))
  if (missing) throw missingParameter(`${path}.${missing}`)
  if (shape.idPrefix) checkId(item['id'], shape.idPrefix, `${path}.id`)
  if (typeof item['call_id'] === 'string') checkLength(item['call_id'], `${path}.call_id`)
  if (type === 'message') checkMessage(item, path)
  if (type === 'function_call' && typeof item['arguments'] !== 'string')
    throw invalidType(`${path}.arguments`, 'a string')
}

function checkId(id: unknown, prefix: string, path: string): void {
  if (id === undefined || id === null) return
  if (typeof id === 'string' && id.startsWith(prefix)) return checkLength(id, path)
  throw new ProviderError(`Invalid '${path}': ${JSON.stringify(id)}. Expected an ID that begins with '${prefix}'.`, {
    param: path,
    code: 'invalid_value',
  })
}

function checkLength(id: string, path: string): void {
  if (id.length <= 64) return
  const limit = `Expected a string with maximum length 64, but got a string with length ${id.length} instead.`
  throw new ProviderError(`Invalid '${path}': string too long. ${limit}`, {
    param: path,
    code: 'string_above_max_length',
  })
}

function checkMessage(item: JsonObject, path: string): void {
  const role = String(item['role'])
  const supported = CONTENT_TYPES[role]
  if (!supported) throw invalidValue(`${path}.role`, role, Object.keys(CONTENT_TYPES))
  const { content } = item
  if (typeof content === 'string') return
  if (!Array.isArray(content)) throw invalidType(`${path}.content`, 'one of an array of objects or a string')
  for (const [index, part] of jsonObjects(content).entries()) {
    const type = String(part['type'])
    if (!supported.includes(type)) throw invalidValue(`${path}.content[${index}].type`, type, supported)
  }
}

function checkPairs(items: readonly JsonObject[]): void {
  const open = new Map<string, string>()
  for (const item of items) {
    const type = String(item['type'])
    const callId = String(item['call_id'])
    if (RESULT_OF[type]) open.set(callId, type)
    else if (CALL_OF[type] && !open.delete(callId))
      throw pairError(`No tool call found for ${words(type)} with call_id`, callId)
  }
  const [unanswered] = open
  if (unanswered) throw pairError(`No tool output found for ${words(unanswered[1])}`, unanswered[0])
}

const words = (type: string): string => type.replaceAll('_', ' ')

const pairError = (text: string, callId: string): ProviderError =>
  new ProviderError(`${text} ${callId}.`, { param: 'input' })

function checkReasoning(items: readonly JsonObject[], issued: IssuedItems): void {
  const ids = new Set(items.map(({ id }) => id))
  for (const [index, item] of items.entries()) {
    const { id, type = 'message' } = item
    if (type === 'reasoning' && typeof id === 'string' && !followsReasoning(items[index + 1])) {
      throw reasoningError(`Item '${id}' of type 'reasoning' was provided without its required following item.`)
    }
    const known = issued.find(id)
    if (known?.stored && known.reasoningId && !ids.has(known.reasoningId)) {
      const needed = `its required 'reasoning' item: '${known.reasoningId}'.`
      throw reasoningError(`Item '${String(id)}' of type '${String(type)}' was provided without ${needed}`)
    }
  }
}

const reasoningError = (message: string): ProviderError => new ProviderError(message, { param: 'input' })

function followsReasoning(item: JsonObject | undefined): boolean {
  if (!item) return false
  const type = stringOr(item['type'], 'message')
  return type === 'message' ? item['role'] === 'assistant' : !type.endsWith('_output')
}

function checkIds(items: readonly JsonObject[], issued: IssuedItems): void {
  const seen = new Set<string>()
  for (const { id, type, encrypted_content: sealed } of items) {
    if (typeof id !== 'string') continue
    if (seen.has(id))
      throw new ProviderError(`Duplicate item found with id ${id}. Remove duplicate items.`, { param: 'input' })
    seen.add(id)
    const lost = type === 'reasoning' && !sealed && issued.find(id)?.stored === false
    if (!lost && type !== 'item_reference') continue
    if (issued.find(id)?.stored) continue
    const reason = 'Items are not persisted when `store` is set to false.'
    throw new ProviderError(`Item with id '${id}' not found. ${reason}`, { status: 404, param: 'input' })
  }
}

type Shape = { readonly required: readonly string[]; readonly optional: readonly string[]; readonly idPrefix?: string }

const shape = (required: string, optional = '', idPrefix?: string): Shape => ({
  required: required.split(' '),
  optional: optional.split(' '),
  ...(idPrefix ? { idPrefix } : {}),
})

/** Fields of each item type, from the service's published request types. */
const ITEM_SHAPES: Readonly<Record<string, Shape>> = {
  message: shape('role content', 'id status phase', 'msg'),
  function_call: shape('call_id name arguments', 'id status namespace async caller', 'fc'),
  function_call_output: shape('call_id output', 'id status caller name namespace'),
  reasoning: shape('summary', 'id content encrypted_content status', 'rs'),
  web_search_call: shape('id', 'status action', 'ws'),
  file_search_call: shape('id queries', 'status results', 'fs'),
  image_generation_call: shape(
    'id result',
    'status action background error output_format quality revised_prompt size svg_usage',
    'ig',
  ),
  code_interpreter_call: shape('id container_id', 'status code outputs', 'ci'),
  mcp_list_tools: shape('id server_label tools', 'error', 'mcpl'),
  mcp_approval_request: shape('id server_label name arguments', '', 'mcpr'),
  mcp_approval_response: shape('approval_request_id approve', 'id reason'),
  mcp_call: shape('id server_label name arguments', 'approval_request_id error output status', 'mcp'),
  custom_tool_call: shape('call_id name input', 'id status namespace async caller', 'ctc'),
  custom_tool_call_output: shape('call_id output', 'id status caller'),
  computer_call: shape('id call_id', 'status pending_safety_checks action actions', 'cu'),
  computer_call_output: shape('call_id output', 'id status acknowledged_safety_checks'),
  local_shell_call: shape('id call_id action', 'status', 'lsh'),
  local_shell_call_output: shape('id output', 'status'),
  shell_call: shape('call_id action', 'id status caller environment', 'sh'),
  shell_call_output: shape('call_id output', 'id status caller max_output_length'),
  apply_patch_call: shape('call_id operation', 'id status caller', 'apc'),
  apply_patch_call_output: shape('call_id status', 'id caller output'),
  tool_search_call: shape('arguments', 'id call_id execution status'),
  tool_search_output: shape('tools', 'id call_id execution status'),
  compaction: shape('encrypted_content', 'id', 'cmp'),
  item_reference: shape('id'),
}

const INPUT_CONTENT = ['input_text', 'input_image', 'input_file']

const CONTENT_TYPES: Readonly<Record<string, readonly string[]>> = {
  user: INPUT_CONTENT,
  system: INPUT_CONTENT,
  developer: INPUT_CONTENT,
  assistant: ['output_text', 'refusal'],
}

const RESULT_OF: Readonly<Record<string, string>> = {
  function_call: 'function_call_output',
  custom_tool_call: 'custom_tool_call_output',
  computer_call: 'computer_call_output',
  shell_call: 'shell_call_output',
  apply_patch_call: 'apply_patch_call_output',
}

const CALL_OF: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(RESULT_OF).map(([call, result]) => [result, call]),
)
