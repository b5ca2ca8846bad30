import type { RunErrorCode } from './run-errors.ts'
import type { Message } from './message.ts'
import type { Usage, UsageByModel } from './usage.ts'

/** `immediate` stops at once; `after_turn` lets the running turn, its tools and nested agents finish. */
export type CancelMode = 'immediate' | 'after_turn'

/**
 * Who speaks: an agent, while it is in control of a conversation.
 *
 * One object is shared by all events of that time, so that an encoder can work out its text once.
 */
export type EventSource = {
  readonly agent: string
  /** Null in the conversation with the user; otherwise the agent that sent the message. */
  readonly callerAgent: string | null
  readonly agent_run_id: string
  /** The `call_id` of the message-tool call that opened a nested conversation. */
  readonly parent_run_id?: string
}

/** Names of the run-item events, as existing clients expect them ("occured" with one r). */
export type RunItemName =
  | 'message_output_created'
  | 'tool_called'
  | 'tool_output'
  | 'handoff_requested'
  | 'handoff_occured'
  | 'reasoning_item_created'
  | 'mcp_approval_requested'
  | 'mcp_approval_response'
  | 'mcp_list_tools'
  | 'tool_search_called'
  | 'tool_search_output_created'

/** The part of a finished item that may leave the process, and where it came from. */
type RunItem = {
  readonly type: string
  readonly agent: { readonly name: string }
  readonly raw_item: Readonly<Record<string, unknown>>
  readonly [key: string]: unknown
}

/** Why a run failed, and the sentence that is fit for the caller. */
export type RunError = { readonly code: RunErrorCode; readonly message: string }

/** A call that is carried out once a person has approved it. */
export type ApprovalRequest = {
  readonly call_id: string
  readonly tool: string
  /** The arguments, as the text that the model wrote. */
  readonly arguments: string
  readonly agent: string
  readonly agent_run_id: string
  /** When the call counts as rejected, in ISO 8601. */
  readonly expires_at: string
  /** True: whoever approves the call may change its arguments. */
  readonly edit: boolean
  /** Comes back with the decision; only where the server keeps no runs. */
  readonly token?: string
}

/**
 * Everything that can happen in a run, in the order in which it is logged.
 *
 * The first event is always `run.started` (`run.resumed` for a process that goes on with it) and the last is always
 * `run.ended`; after it nothing follows. Each wire
 * format (agency SSE, AG-UI, platform SSE, plain text) is a function of this union.
 */
export type RunEvent =
  | { readonly type: 'run.started'; readonly run_id: string; readonly agent: string }
  | RunResumed
  | { readonly type: 'agent.updated'; readonly source: EventSource }
  | ModelEvent
  | {
      readonly type: 'item.created'
      readonly source: EventSource
      readonly name: RunItemName
      readonly item: RunItem
      readonly call_id?: string
    }
  | { readonly type: 'oauth.redirect'; readonly state: string; readonly server: string; readonly auth_url: string }
  | { readonly type: 'oauth.status'; readonly state: string; readonly server: string; readonly status: string }
  /** The run is about to end as `waiting`; there is one for each call that waits. */
  | ({ readonly type: 'approval.requested'; readonly source: EventSource } & ApprovalRequest)
  | { readonly type: 'custom'; readonly source: EventSource; readonly data: Readonly<Record<string, unknown>> }
  /** The state that a page and the agents share, with which the request began, is now this; any JSON value. */
  | { readonly type: 'state.changed'; readonly state: unknown }
  | { readonly type: 'run.error'; readonly source: EventSource | null; readonly error: RunError }
  | RunEnded

/** The events of one type. */
export type RunEventOf<Type extends RunEvent['type']> = RunEvent & { readonly type: Type }

/**
 * One streaming event of the model provider, as the JSON text in which it arrived.
 *
 * The text is never parsed on its way to the client. `kind` is the event's own `type`.
 */
export type ModelEvent = {
  readonly type: 'model.event'
  readonly source: EventSource
  readonly kind: string
  readonly json: string
  /** Set where the event itself has an `item_id`. */
  readonly item_id?: string
  /** Set where the event carries an item: its `call_id`, else its `id`. */
  readonly call_id?: string
}

/** The process that worked on the run has died or is being replaced; another one goes on. */
type RunResumed = {
  readonly type: 'run.resumed'
  /** How many processes have worked on the run: 2 for the first that takes it up. */
  readonly attempt: number
  /** Ids of items whose text or arguments were never finished: what was shown of them does not count. */
  readonly withdrawn: readonly string[]
}

/** How a run ended and everything it produced. */
export type RunEnded = {
  readonly type: 'run.ended'
  readonly run_id: string
  /** `waiting`: it goes on once a person has decided about the calls in `approvals`. */
  readonly status: 'completed' | 'failed' | 'cancelled' | 'waiting'
  readonly new_messages: readonly Message[]
  /** Null when the agent is set not to report usage. */
  readonly usage: Usage | null
  readonly usage_by_model: readonly UsageByModel[]
  /** The final answer: text, or an object when the agent has a structured output type. Null when there is none. */
  readonly output: unknown
  readonly error: RunError | null
  /** The calls that wait for a decision. Only there when the run is `waiting`. */
  readonly approvals?: readonly ApprovalRequest[]
  readonly file_ids_map?: Readonly<Record<string, string>>
  readonly chat_name?: string
  /** Calls of functions that the caller carries out, by their ids: without output, the last items of `new_messages`. */
  readonly caller_calls?: readonly string[]
}
