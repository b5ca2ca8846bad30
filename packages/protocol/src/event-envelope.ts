import type { EventSource, RunEvent } from './run-event.ts'

/**
 * A run event as clients see it in the `data` of a stream, as JSON text: its own members and those of who speaks.
 * Undefined for events that each stream tells in frames of its own, and for an agency's own events that are not JSON.
 *
 * A model event keeps the text it came in. This is the path of every token, so nothing of it is parsed or built anew.
 */
export function eventEnvelope(event: RunEvent): string | undefined {
  switch (event.type) {
    case 'model.event': {
      const itemId = event.item_id === undefined ? '' : `,"item_id":${JSON.stringify(event.item_id)}`
      const callId = event.call_id === undefined ? '' : `,"call_id":${JSON.stringify(event.call_id)}`
      return `{"type":"raw_response_event","data":${event.json},${sourceText(event.source)}${itemId}${callId}}`
    }
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

const sourceTexts = new WeakMap<EventSource, string>()

/** The members that say who speaks; worked out once for each time that an agent is in control. */
function sourceText(source: EventSource): string {
  const known = sourceTexts.get(source)
  if (known !== undefined) return known
  const text = JSON.stringify(source).slice(1, -1)
  sourceTexts.set(source, text)
  return text
}
