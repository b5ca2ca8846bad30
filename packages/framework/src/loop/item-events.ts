import type { EventSource, RunEvent, RunItemName, WireItem } from '@bureau/protocol'

/** Calls whose output the run itself, or the provider, produces; all are `tool_called` on the wire. */
const TOOL_CALLS = new Set([
  'function_call',
  'computer_call',
  'custom_tool_call',
  'shell_call',
  'local_shell_call',
  'apply_patch_call',
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'image_generation_call',
  'mcp_call',
])

/** What a client may know of the tool behind a call. */
export type ToolFacts = { readonly description: string | null; readonly mcpServer?: string }

/** The names of the events of other items. The type of an event's item is that of the item with `_item` behind it, but for a message. */
const OTHER_ITEMS: ReadonlyMap<string | undefined, RunItemName> = new Map([
  ['message', 'message_output_created'],
  ['reasoning', 'reasoning_item_created'],
  ['mcp_list_tools', 'mcp_list_tools'],
  ['mcp_approval_request', 'mcp_approval_requested'],
  ['mcp_approval_response', 'mcp_approval_response'],
  ['tool_search_call', 'tool_search_called'],
  ['tool_search_output', 'tool_search_output_created'],
])

export function isToolCall(item: WireItem): boolean {
  return TOOL_CALLS.has(item.type ?? '')
}

/** The event of an item that a model has finished; undefined for kinds that have none. */
export function itemCreated(item: WireItem, source: EventSource, facts?: ToolFacts): RunEvent | undefined {
  const agent = { name: source.agent }
  if (isToolCall(item)) {
    return {
      type: 'item.created',
      source,
      name: 'tool_called',
      item: {
        type: 'tool_call_item',
        agent,
        raw_item: publicItem(item),
        description: facts?.description ?? null,
        title: null,
        tool_origin: facts ? toolOrigin(facts) : null,
      },
      ...callIdOf(item),
    }
  }
  const name = OTHER_ITEMS.get(item.type)
  if (!name) return undefined
  const type = item.type === 'message' ? 'message_output_item' : `${item.type}_item`
  return { type: 'item.created', source, name, item: { type, agent, raw_item: publicItem(item) } }
}

/** The event of a tool's result. */
export function toolOutputCreated(output: WireItem, source: EventSource, facts?: ToolFacts): RunEvent {
  return {
    type: 'item.created',
    source,
    name: 'tool_output',
    item: {
      type: 'tool_call_output_item',
      agent: { name: source.agent },
      raw_item: output,
      output: output['output'],
      tool_origin: facts ? toolOrigin(facts) : null,
      custom_data: null,
    },
    ...callIdOf(output),
  }
}

function toolOrigin(facts: ToolFacts): Record<string, unknown> {
  return {
    type: facts.mcpServer === undefined ? 'function' : 'mcp',
    mcp_server_name: facts.mcpServer ?? null,
    agent_name: null,
    agent_tool_name: null,
  }
}

function callIdOf(item: WireItem): { call_id?: string } {
  const id = item.call_id ?? item.id
  return id === undefined ? {} : { call_id: id }
}

/** Tool lists of provider-hosted servers hold schemas, which never leave the process: names only. */
export function publicItem(item: WireItem): WireItem {
  if (item.type !== 'mcp_list_tools' || !Array.isArray(item['tools'])) return item
  const tools = item['tools'].map((tool: unknown) => ({ name: (tool as { name?: unknown } | null)?.name ?? null }))
  return { ...item, tools }
}
