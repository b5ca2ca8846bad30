import { type Fields, isFields, type WireItem } from '@bureau/protocol'

/** An item as callbacks that were written for `@openai/agents` read it. */
export type ViewItem = Readonly<Record<string, unknown>>

const originals = new WeakMap<object, WireItem>()

/** The items in the form of `@openai/agents`. Made only where a callback of that SDK asks for them. */
export function toViewItems(items: readonly WireItem[]): ViewItem[] {
  const calls = items.filter(({ type }) => type === 'function_call')
  const names = new Map(calls.map((item) => [item.call_id, item['name']]))
  return items.map((item) => toViewItem(item, names.get(item.call_id)))
}

function toViewItem(item: WireItem, callName: unknown): ViewItem {
  const view = viewOf(item, callName)
  originals.set(view, item)
  return view
}

/** The way back: an item that was only passed on is the same item, a changed or a new one is written anew. */
export function toWireItem(view: ViewItem): WireItem {
  return originals.get(view) ?? wireOf(view)
}

const HOSTED = new Set<unknown>([
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'image_generation_call',
  'mcp_call',
  'mcp_list_tools',
  'mcp_approval_request',
  'mcp_approval_response',
])

function viewOf(item: WireItem, callName: unknown): ViewItem {
  const { type, id, call_id: callId, status, ...rest } = item
  const ids = { ...(id !== undefined && { id }), ...(callId !== undefined && { callId }) }
  if (type === undefined || type === 'message') return messageView(item)
  if (HOSTED.has(type)) {
    return { type: 'hosted_tool_call', ...ids, name: type, status: status ?? 'completed', providerData: { ...item } }
  }
  switch (type) {
    case 'function_call':
      return { type, ...ids, name: rest['name'], arguments: rest['arguments'], status: status ?? 'completed' }
    case 'function_call_output':
      return {
        type: 'function_call_result',
        ...ids,
        name: callName,
        status: status ?? 'completed',
        output: outputView(rest['output']),
      }
    case 'reasoning': {
      const { summary, ...providerData } = rest
      return { type, ...ids, content: listOf(summary).map(({ text }) => ({ type: 'input_text', text })), providerData }
    }
    default:
      return { type: 'unknown', ...ids, providerData: { ...item } }
  }
}

function messageView(item: WireItem): ViewItem {
  const { content, role, type, id, ...rest } = item
  const head = { ...(type !== undefined && { type }), ...(id !== undefined && { id }), role }
  if (role !== 'assistant') return { ...head, content: Array.isArray(content) ? content.map(partView) : content }
  const parts = typeof content === 'string' ? [{ type: 'output_text', text: content }] : listOf(content)
  return { type: 'message', ...head, status: rest['status'] ?? 'completed', content: parts.map(partView) }
}

function outputView(output: unknown): unknown {
  if (Array.isArray(output)) return output.map(partView)
  return { type: 'text', text: typeof output === 'string' ? output : JSON.stringify(output ?? null) }
}

function partView(part: Fields): Fields {
  const { type, image_url: url, file_id: fileId, file_url: fileUrl, file_data: data, ...rest } = part
  if (type === 'input_image') return { type, image: url ?? { id: fileId }, ...rest }
  if (type !== 'input_file') return part
  return {
    type,
    file: fileId !== undefined ? { id: fileId } : fileUrl !== undefined ? { url: fileUrl } : data,
    ...rest,
  }
}

function wireOf(view: ViewItem): WireItem {
  const { type, id, callId, providerData, ...rest } = view
  const ids = { ...(typeof id === 'string' && { id }), ...(typeof callId === 'string' && { call_id: callId }) }
  switch (type) {
    case undefined:
    case 'message':
      return { ...ids, ...rest, type: 'message', content: contentWire(rest['content']) }
    case 'function_call':
      return { type, ...ids, name: rest['name'], arguments: rest['arguments'], status: rest['status'] }
    case 'function_call_result':
      return { type: 'function_call_output', ...ids, output: outputWire(rest['output']) }
    case 'reasoning': {
      const summary = listOf(rest['content']).map(({ text }) => ({ type: 'summary_text', text }))
      return { type, ...ids, summary, ...(providerData as object | undefined) }
    }
    case 'hosted_tool_call':
    case 'unknown':
      return { ...(providerData as WireItem) }
    default:
      return { type: String(type), ...ids, ...rest, ...(providerData as object | undefined) }
  }
}

function contentWire(content: unknown): unknown {
  return Array.isArray(content) ? content.map(partWire) : content
}

function outputWire(output: unknown): unknown {
  if (Array.isArray(output)) return output.map(partWire)
  return typeof output === 'object' && output !== null ? (output as { text?: unknown }).text : output
}

function partWire(part: Fields): Fields {
  const { type, image, file, ...rest } = part
  if (type === 'input_image')
    return { type, ...rest, ...(isFields(image) ? { file_id: image['id'] } : { image_url: image }) }
  if (type !== 'input_file') return part
  if (isFields(file)) return { type, ...rest, ...('id' in file ? { file_id: file['id'] } : { file_url: file['url'] }) }
  return { type, ...rest, ...(/^https?:\/\//.test(String(file)) ? { file_url: file } : { file_data: file }) }
}

function listOf(value: unknown): Fields[] {
  return Array.isArray(value) ? value.filter(isFields) : []
}
