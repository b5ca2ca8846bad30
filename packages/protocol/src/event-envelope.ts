import type { EventSource, ModelEvent, RunEvent } from './run-event.ts'

/**
 * A run event as clients see it in the `data` of a stream, as JSON text: its own members and those of who speaks.
 * Undefined for events that each stream tells in frames of its own, and for an agency's own events that are not JSON.
 *
 * A model event keeps the text it came in. This is the path of every token, so nothing of it is parsed or built anew.
 */
export function eventEnvelope(event: RunEvent): string | undefined {
  switch (event.type) {
    case 'model.event':
      return `{"type":"raw_response_event","data":${event.json}${endText(event)}`
    case 'agent.updated':
      return withSource({ type: 'agent_updated_stream_event', new_agent: { name: event.source.agent } }, event.source)
    case 'item.created': {
      const { name, item, call_id } = event
      const data = { type: 'run_item_stream_event', name, item, ...(call_id !== undefined && { call_id }) }
      return withSource(data, event.source)
    }
    case 'custom':
      return ownEvent(event.data, event.source)
    case 'run.error': {
      const { message, code } = event.error
      return event.source ? withSource({ type: 'error', content: message, code }, event.source) : undefined
    }
    default:
      return OWN_FRAMES[event.type]
  }
}

/** Events that each stream tells in frames of its own. */
const OWN_FRAMES = {
  'run.started': undefined,
  'run.resumed': undefined,
  'run.ended': undefined,
  'oauth.redirect': undefined,
  'oauth.status': undefined,
  'approval.requested': undefined,
  'state.changed': undefined,
} as const

/** Tools make these; what a tool does wrong must not end the stream. */
function ownEvent(data: object, source: EventSource): string | undefined {
  try {
    return withSource(data, source)
  } catch {
    return undefined
  }
}

function withSource(data: object, source: EventSource): string {
  return JSON.stringify({ ...data, ...source })
}

type EndOfEnvelope = { readonly speaker: string; itemId: string | undefined; callId: string | undefined; text: string }

/** How the last envelope of each speaker ended. */
const ends = new WeakMap<EventSource, EndOfEnvelope>()

/** The members that say who speaks, and of which item: worked out once for all deltas of an item. */
function endText({ source, item_id: itemId, call_id: callId }: ModelEvent): string {
  let end = ends.get(source)
  if (end && end.itemId === itemId && end.callId === callId) return end.text
  if (!end) {
    const speaker = JSON.stringify(source).slice(1, -1)
    ends.set(source, (end = { speaker, itemId: undefined, callId: undefined, text: '' }))
  }
  const item = itemId === undefined ? '' : `,"item_id":${JSON.stringify(itemId)}`
  const call = callId === undefined ? '' : `,"call_id":${JSON.stringify(callId)}`
  return Object.assign(end, { itemId, callId, text: `,${end.speaker}${item}${call}}` }).text
}
