import { type Fields, isFields } from '@bureau/protocol'
import type { RealtimeItem } from '@openai/agents-realtime'

/** What a client may know of its session: prompts, tool schemas and settings stay in the process. */
const SESSION_FIELDS = [
  'id',
  'object',
  'type',
  'model',
  'expires_at',
  'output_modalities',
  'audio',
  'voice',
  'turn_detection',
]

const RESPONSE_FIELDS = [
  'id',
  'object',
  'conversation_id',
  'status',
  'status_details',
  'output',
  'output_modalities',
  'audio',
  'usage',
  'max_output_tokens',
]

/** A provider's event as clients may see it. */
export function publicEvent(event: Fields): Fields {
  const { session, response, item, ...rest } = event
  return {
    ...rest,
    ...(isFields(session) && { session: only(session, SESSION_FIELDS) }),
    ...(isFields(response) && { response: publicResponse(response) }),
    ...(isFields(item) && { item: publicItem(item) }),
  }
}

function publicResponse(response: Fields): Fields {
  const shown = only(response, RESPONSE_FIELDS)
  const { output } = shown
  return Array.isArray(output)
    ? { ...shown, output: output.map((item: unknown) => (isFields(item) ? publicItem(item) : item)) }
    : shown
}

/** Tool lists of remote servers hold schemas: names only. System items are the operator's. */
function publicItem(item: Fields): Fields {
  const { tools, content, ...rest } = item
  const names = Array.isArray(tools)
    ? tools.map((tool: unknown) => ({ name: isFields(tool) ? tool['name'] : null }))
    : tools
  const hidden = item['role'] === 'system'
  return {
    ...rest,
    ...(content !== undefined && { content: hidden ? [] : withoutAudio(content) }),
    ...(tools !== undefined && { tools: names }),
  }
}

const PART_TYPES: Readonly<Record<string, string>> = { output_audio: 'audio', output_text: 'text' }

/** An item of the history, in the words of the message protocol: snake_case, and without the audio itself. */
export function historyItem(item: RealtimeItem): Fields {
  const { itemId, previousItemId, ...rest } = item as Fields & { itemId: string; previousItemId?: string | null }
  const { content, serverLabel, ...members } = rest as Fields
  return {
    item_id: itemId,
    previous_item_id: previousItemId ?? null,
    ...members,
    ...(serverLabel !== undefined && { server_label: serverLabel }),
    ...(content !== undefined && { content: withoutAudio(content, PART_TYPES) }),
  }
}

function withoutAudio(content: unknown, types: Readonly<Record<string, string>> = {}): unknown {
  if (!Array.isArray(content)) return content
  return content.map((part: unknown) => {
    if (!isFields(part)) return part
    const { audio: _, ...rest } = part
    return { ...rest, type: types[String(part['type'])] ?? part['type'] }
  })
}

function only(fields: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => names.includes(name)))
}
