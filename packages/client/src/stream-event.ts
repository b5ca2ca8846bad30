import type { EventSource, Message, RunItemName } from '@bureau/protocol'

/** One item of a conversation, as the model or a tool gave it. */
export type Item = {
  readonly type?: string
  readonly id?: string
  readonly call_id?: string
  readonly name?: string
  readonly [member: string]: unknown
}

/** A streaming event of the model, as it came. */
export type ModelEvent = {
  readonly type: string
  readonly delta?: string
  readonly item_id?: string
  readonly item?: Item
  readonly [member: string]: unknown
}

/**
 * What happens in a run, in the words of docs/streams.md. All but sign-ins, `reset` and errors of the whole run say who
 * speaks.
 */
export type StreamEvent =
  /** An agent is in control now: at the start, for every nested agent, after every handoff. */
  | ({ readonly type: 'agent_updated_stream_event'; readonly new_agent: { readonly name: string } } & EventSource)
  | ({ readonly type: 'raw_response_event'; readonly data: ModelEvent } & EventSource)
  /** An item is complete. */
  | ({
      readonly type: 'run_item_stream_event'
      readonly name: RunItemName
      readonly item: { readonly raw_item: Item; readonly [member: string]: unknown }
    } & EventSource)
  /** The run failed; its result says so too. */
  | ({ readonly type: 'error'; readonly content: string; readonly code?: string } & Partial<EventSource>)
  /** A user must sign in to a tool server, at `auth_url`. */
  | { readonly type: 'oauth_redirect'; readonly state: string; readonly server: string; readonly auth_url: string }
  /** `status` is `pending`, `authorized`, `error:<reason>` or `timeout`. */
  | { readonly type: 'oauth_status'; readonly state: string; readonly server: string; readonly status: string }
  /** What a tool has sent with `run.emit(…)`; `name` is its own `type`, `data` all of it. */
  | ({ readonly type: 'custom'; readonly name: string; readonly data: Readonly<Record<string, unknown>> } & EventSource)
  /** The server has lost the events so far: forget what they said, this is what the run has produced. */
  | {
      readonly type: 'reset'
      readonly new_messages: readonly Message[]
      readonly partial?: { readonly item_id: string; readonly text: string }
    }

const OWN_TYPES: ReadonlySet<unknown> = new Set<StreamEvent['type']>([
  'agent_updated_stream_event',
  'raw_response_event',
  'run_item_stream_event',
  'error',
])

/** The event of a frame; undefined for frames of no event, and for those that this version does not know. */
export function readEvent(name: string | undefined, data: string): StreamEvent | undefined {
  const payload = JSON.parse(data) as Readonly<Record<string, unknown>>
  if (name === 'oauth_redirect' || name === 'oauth_status' || name === 'reset') {
    return { type: name, ...payload } as StreamEvent
  }
  if (name !== undefined) return undefined
  const { error, code, data: content } = payload
  if (typeof error === 'string')
    return { type: 'error', content: error, ...(code !== undefined && { code }) } as StreamEvent
  // Events that other frames tell have a number and nothing else.
  if (typeof content !== 'object' || content === null) return undefined
  const event = content as EventSource & { readonly type: string; readonly [member: string]: unknown }
  if (OWN_TYPES.has(event.type)) return event as StreamEvent
  const { type: custom, agent, callerAgent, agent_run_id, parent_run_id } = event
  const source = { agent, callerAgent, agent_run_id, ...(parent_run_id !== undefined && { parent_run_id }) }
  return { type: 'custom', name: custom, data: event, ...source }
}
