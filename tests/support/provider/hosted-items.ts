import type { JsonObject } from './json-object.ts'
import type { Part } from './turn.ts'

/** Items of tools that the provider runs itself, with the progress events of the real service. */

export function webSearch(query: string): Part {
  const item = { type: 'web_search_call', action: { type: 'search', query } }
  const steps = ['in_progress', 'searching', 'completed']
  return hostedCall({ idPrefix: 'ws', item, progress: named('web_search_call', steps) })
}

/** `results` reach only requests that include `file_search_call.results`, as with the real service. */
export function fileSearch(queries: readonly string[], results: readonly JsonObject[] = []): Part {
  const item = { type: 'file_search_call', queries }
  const steps = ['in_progress', 'searching', 'completed']
  return hostedCall({ idPrefix: 'fs', item, done: { results }, progress: named('file_search_call', steps) })
}

/** @param image - The finished image in base64; each of `partials` is sent before it. */
export function imageGeneration(image: string, partials: readonly string[] = []): Part {
  const partial = (base64: string, index: number): JsonObject => ({
    type: 'response.image_generation_call.partial_image',
    partial_image_index: index,
    partial_image_b64: base64,
    size: '1024x1024',
    output_format: 'png',
  })
  const shape = { background: 'opaque', output_format: 'png', quality: 'medium', size: '1024x1024' }
  return hostedCall({
    idPrefix: 'ig',
    item: { type: 'image_generation_call', result: null },
    done: { ...shape, revised_prompt: null, result: image },
    progress: [...named('image_generation_call', ['in_progress', 'generating']), ...partials.map(partial)],
  })
}

export function codeInterpreter(code: string, outputs: readonly JsonObject[] = []): Part {
  const [started, ...rest] = named('code_interpreter_call', ['in_progress', 'interpreting', 'completed'])
  const written = [
    { type: 'response.code_interpreter_call_code.delta', delta: code },
    { type: 'response.code_interpreter_call_code.done', code },
  ]
  return hostedCall({
    idPrefix: 'ci',
    item: { type: 'code_interpreter_call', code: '', container_id: 'cntr_1', outputs: [] },
    done: { code, outputs },
    progress: [started ?? {}, ...written, ...rest],
  })
}

type HostedMcpCall = { server: string; name: string; args?: JsonObject; output?: string; error?: string }

/** A call to a remote tool server made by the provider; with `error` it failed. */
export function mcpCall({ server, name, args = {}, output, error }: HostedMcpCall): Part {
  const json = JSON.stringify(args)
  const item = { type: 'mcp_call', server_label: server, name, arguments: '', approval_request_id: null }
  const end = error === undefined ? 'completed' : 'failed'
  return hostedCall({
    idPrefix: 'mcp',
    item: { ...item, output: null, error: null },
    done: { arguments: json, output: output ?? null, error: error ?? null, status: end },
    progress: [
      ...named('mcp_call', ['in_progress']),
      { type: 'response.mcp_call_arguments.delta', delta: json },
      { type: 'response.mcp_call_arguments.done', arguments: json },
      ...named('mcp_call', [end]),
    ],
  })
}

/** @param tools - In wire form: `{name, description, input_schema, annotations}`. */
export function mcpListTools(server: string, tools: readonly JsonObject[]): Part {
  const item = { type: 'mcp_list_tools', server_label: server, error: null }
  const progress = named('mcp_list_tools', ['in_progress', 'completed'])
  return { part: 'item', idPrefix: 'mcpl', added: { ...item, tools: [] }, progress, done: { ...item, tools } }
}

export function mcpApprovalRequest(server: string, name: string, args: JsonObject = {}): Part {
  const item = { type: 'mcp_approval_request', server_label: server, name, arguments: JSON.stringify(args) }
  return unknownItem(item, 'mcpr')
}

/** An item of any type, known or not, with nothing between its first and last event. */
export function unknownItem(item: JsonObject & { readonly type: string }, idPrefix = 'item'): Part {
  return { part: 'item', idPrefix, added: item, progress: [], done: item }
}

type HostedCall = { idPrefix: string; item: JsonObject; done?: JsonObject; progress: readonly JsonObject[] }

function hostedCall({ idPrefix, item, done = {}, progress }: HostedCall): Part {
  const added = { ...item, status: 'in_progress' }
  return { part: 'item', idPrefix, added, progress, done: { ...item, status: 'completed', ...done } }
}

const named = (call: string, steps: readonly string[]): readonly JsonObject[] =>
  steps.map((step) => ({ type: `response.${call}.${step}` }))
