import { isDeepStrictEqual } from 'node:util'
import { toWirePart, toWireSummaryPart } from './wire-items.parts.ts'
import { type Draft, type Fields, isFields, merged, snakeCase } from './wire-items.remainder.ts'
import { toWireToolOutput } from './wire-items.tool-output.ts'

/** An SDK item on the wire. Total: a kind that is not known here is passed on as it is. */
export function wireFieldsOf(item: Draft): Fields {
  const { providerData, ...fields } = item
  if (item.type === 'unknown') return verbatimFields(fields, providerData)
  if (item.type === 'hosted_tool_call') return hostedFields(fields, providerData)
  const said = (WIRE_FIELDS.get(item.type ?? 'message') ?? asItIs)(fields)
  return merged(said, withoutId(providerData))
}

type ToWire = (item: Fields) => Fields

const WIRE_FIELDS: ReadonlyMap<unknown, ToWire> = new Map(
  Object.entries<ToWire>({
    message: ({ content, ...rest }) => ({
      ...rest,
      content: Array.isArray(content) ? content.map(toWirePart) : content,
    }),
    function_call: (item) => callFields(item),
    function_call_result: ({ name: _name, namespace: _namespace, output, status, ...rest }) => ({
      ...callFields(rest),
      type: 'function_call_output',
      output: toWireToolOutput(output),
      // Only items that were returned by the provider, which have an id, carry a status.
      ...(rest['id'] !== undefined && { status }),
    }),
    reasoning: ({ content, rawContent, ...rest }) => ({
      ...rest,
      summary: Array.isArray(content)
        ? content.map((part) => (isFields(part) ? toWireSummaryPart(part) : part))
        : content,
      content: Array.isArray(rawContent) ? rawContent.map(toWirePart) : undefined,
    }),
    computer_call: ({ action, actions, ...rest }) => ({
      ...callFields(rest),
      // The SDK repeats the first of several actions.
      ...(!(Array.isArray(actions) && isDeepStrictEqual(actions[0], action)) && { action }),
      actions,
    }),
    computer_call_result: ({ output, ...rest }) => ({
      ...callFields(rest),
      type: 'computer_call_output',
      output: isFields(output) ? { type: 'computer_screenshot', image_url: output['data'] } : output,
    }),
    shell_call: ({ action, ...rest }) => ({
      ...callFields(rest),
      action: isFields(action) ? shellAction(action) : action,
    }),
    shell_call_output: ({ output, maxOutputLength, ...rest }) => ({
      ...callFields(rest),
      output: Array.isArray(output) ? output.map(shellOutput) : output,
      max_output_length: maxOutputLength,
    }),
    apply_patch_call: ({ operation, ...rest }) => ({
      ...callFields(rest),
      operation: isFields(operation) ? patchOperation(operation) : operation,
    }),
    apply_patch_call_output: (item) => callFields(item),
    tool_search_call: (item) => toolSearchFields(item),
    tool_search_output: ({ tools, ...rest }) => ({
      ...toolSearchFields(rest),
      tools: Array.isArray(tools) ? tools.map(foundTool) : tools,
    }),
    program: (item) => callFields(item),
    program_output: ({ output, ...rest }) => ({ ...callFields(rest), result: output }),
  }),
)

const asItIs: ToWire = (item) => item

function verbatimFields(fields: Fields, providerData: Fields | undefined): Fields {
  const { type: _type, id } = fields
  return id === undefined || (providerData && Object.hasOwn(providerData, 'id'))
    ? { ...providerData }
    : { ...providerData, id }
}

/** The SDK keeps a hosted call whole in `providerData`, except for what it moves into fields of its own. */
function hostedFields(item: Fields, providerData: Fields | undefined): Fields {
  const { name, output, caller, ...rest } = item
  const type = providerData?.['type'] ?? name
  const { status, ...others } = rest
  const moved = {
    ...others,
    type,
    [type === 'image_generation_call' ? 'result' : 'output']: output,
    caller: wireCaller(caller),
    // The status of these is the SDK's own word.
    ...(!(typeof type === 'string' && type.startsWith('mcp_')) && { status }),
  }
  return merged(moved, providerData)
}

/** An id in `providerData` is a copy of the item's own, which the SDK may have taken away on purpose. */
function withoutId(providerData: Fields | undefined): Fields | undefined {
  if (typeof providerData?.['id'] !== 'string') return providerData
  const { id: _id, ...rest } = providerData
  return rest
}

function callFields(item: Fields): Fields {
  const { callId, caller, ...rest } = item
  return { ...rest, call_id: callId, caller: wireCaller(caller) }
}

function wireCaller(caller: unknown): unknown {
  if (!isFields(caller) || caller['type'] !== 'program') return caller
  const { callerId, ...rest } = caller
  return { ...rest, caller_id: callerId }
}

function shellAction(action: Fields): Fields {
  const { timeoutMs = null, maxOutputLength = null, ...rest } = action
  return { ...rest, timeout_ms: timeoutMs, max_output_length: maxOutputLength }
}

function shellOutput(entry: unknown): unknown {
  if (!isFields(entry) || !isFields(entry['outcome']) || entry['outcome']['type'] !== 'exit') return entry
  const { exitCode, ...outcome } = entry['outcome']
  return { ...entry, outcome: { ...outcome, exit_code: exitCode ?? 0 } }
}

function patchOperation(operation: Fields): Fields {
  const { moveTo, ...rest } = operation
  return moveTo === undefined ? rest : { ...rest, move_to: moveTo }
}

/** Without what the SDK notes for itself about a search. */
function toolSearchFields(item: Fields): Fields {
  const { callId, toolSearchAgentName: _agent, toolSearchMcpToolNames: _tools, ...rest } = item
  return { call_id: callId, ...rest }
}

function foundTool(tool: unknown): unknown {
  if (!isFields(tool)) return tool
  if (tool['type'] === 'namespace' && Array.isArray(tool['tools']))
    return { ...tool, tools: tool['tools'].map(foundTool) }
  const renamed = FOUND_TOOL_FIELDS.get(tool['type'])
  if (!renamed) return tool
  return Object.fromEntries(
    Object.entries(tool).map(([key, value]) => [renamed.includes(key) ? snakeCase(key) : key, value]),
  )
}

const FOUND_TOOL_FIELDS: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['tool_reference', ['functionName']],
  ['function', ['deferLoading', 'allowedCallers', 'outputSchema']],
])
