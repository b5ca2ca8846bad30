import type { EventSource, Message, RunItemName } from '@bureau/protocol'

/** A tool call that waits until a person has approved or rejected it. */
export type Approval = {
  readonly call_id: string
  readonly tool: string
  /** The arguments as the model wrote them: JSON text. */
  readonly arguments: string
  readonly agent: string
  readonly agent_run_id: string
  /** When the call counts as rejected; ISO 8601. */
  readonly expires_at: string
  /** Whether other arguments may be given with the approval. */
  readonly edit: boolean
  /** Of a self-hosted server, which gets it back with the decision. */
  readonly token?: string
}

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
 * What happens in a run, in the words of docs/streams.md. All but sign-ins, `reset`, `run_resumed` and errors of the whole
 * run say who speaks.
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
  /** The run ends as `waiting`, until somebody has decided on this call. */
  | ({ readonly type: 'approval_requested' } & Approval)
  /** Another process goes on with the run. What was written of these items, by their ids, is not part of it. */
  | { readonly type: 'run_resumed'; readonly attempt: number; readonly withdrawn: readonly string[] }
  /** What a tool has sent with `run.emit(…)`; `name` is its own `type`, `data` all of it. */
  | ({ readonly type: 'custom'; readonly name: string; readonly data: Readonly<Record<string, unknown>> } & EventSource)
  /** The server has lost the events so far: forget what they said, this is what the run has produced. */
  | {
      readonly type: 'reset'
      readonly new_messages: readonly Message[]
      readonly partial?: { readonly item_id: string; readonly text: string }
    }

const OWN_TYPES: readonly string[] = [
  'agent_updated_stream_event',
  'raw_response_event',
  'run_item_stream_event',
  'error',
] satisfies StreamEvent['type'][]

/** Frames whose name is the type of their event. */
const NAMED: readonly string[] = [
  'oauth_redirect',
  'oauth_status',
  'approval_requested',
  'run_resumed',
  'reset',
] satisfies StreamEvent['type'][]

/** The event of a frame; undefined for frames of no event, and for those that this version does not know. */
export function readEvent(name: string | null, data: string): StreamEvent | undefined {
  if (name !== null && !NAMED.includes(name)) return undefined
  const payload = JSON.parse(data) as Readonly<Record<string, unknown>>
  if (name !== null) return { ...payload, type: name } as StreamEvent
  const { error, code, data: content } = payload
  if (typeof error === 'string')
    return { type: 'error', content: error, ...(code !== undefined && { code }) } as StreamEvent
  // Events that other frames tell have a number and nothing else.
  if (typeof content !== 'object' || content === null) return undefined
  const event = content as EventSource & { readonly type: string; readonly [member: string]: unknown }
  if (OWN_TYPES.includes(event.type)) return event as StreamEvent
  const { type: custom, agent, callerAgent, agent_run_id, parent_run_id } = event
  const source = { agent, callerAgent, agent_run_id, ...(parent_run_id !== undefined && { parent_run_id }) }
  return { type: 'custom', name: custom, data: event, ...source }
}
