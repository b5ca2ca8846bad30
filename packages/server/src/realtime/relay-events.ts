import type { AgencyContext } from '@bureau/framework'
import { type ErrorCode, RUN_ERRORS, type RunErrorCode } from '@bureau/protocol'
import type { Logger } from '@bureau/runtime'
import type { RealtimeSession } from '@openai/agents-realtime'
import { historyItem, publicEvent } from './public-events.ts'
import type { ToolApproval } from './voice-session.ts'

/** One message to the client, as the message protocol has it. */
export type ServerMessage = { readonly type: string; readonly [key: string]: unknown }

type Relay = {
  readonly session: RealtimeSession<AgencyContext>
  readonly send: (message: ServerMessage) => void
  readonly log: Logger
  /** Calls that wait for a decision, by `call_id`. */
  readonly approvals: Map<string, ToolApproval>
}

/** A client can make its provider complain as often as it likes; so many complaints are logged. */
const MAX_LOGGED_ERRORS = 20

/** Tells the client everything that happens in a session. */
export function relayEvents({ session, send, log, approvals }: Relay): void {
  let speaking: { item_id: unknown; content_index: unknown } = { item_id: null, content_index: 0 }
  session.on('transport_event', (event) => {
    if (event.type === 'response.output_audio.delta') {
      speaking = { item_id: event['item_id'], content_index: event['content_index'] }
    }
    const message = messageOf(event)
    if (message) send(message)
  })
  session.on('audio_interrupted', () => send({ type: 'audio_interrupted', ...speaking }))
  session.on('agent_start', (_context, agent) => send({ type: 'agent_start', agent: agent.name }))
  session.on('agent_end', (_context, agent) => send({ type: 'agent_end', agent: agent.name }))
  session.on('agent_handoff', (_context, from, to) => send({ type: 'handoff', from: from.name, to: to.name }))
  session.on('agent_tool_start', (_context, agent, tool) => {
    send({ type: 'tool_start', agent: agent.name, tool: tool.name })
  })
  session.on('agent_tool_end', (_context, agent, tool, output) => {
    send({ type: 'tool_end', agent: agent.name, tool: tool.name, output })
  })
  session.on('tool_approval_requested', (_context, agent, { approvalItem }) => {
    const { rawItem } = approvalItem
    const callId = 'callId' in rawItem && typeof rawItem.callId === 'string' ? rawItem.callId : (rawItem.id ?? '')
    approvals.set(callId, approvalItem)
    send({
      type: 'tool_approval_required',
      agent: agent.name,
      tool: approvalItem.name ?? null,
      call_id: callId,
      arguments: 'arguments' in rawItem ? (rawItem.arguments ?? null) : null,
    })
  })
  session.on('history_updated', (history) => send({ type: 'history_updated', history: history.map(historyItem) }))
  session.on('history_added', (item) => send({ type: 'history_added', item: historyItem(item) }))
  session.on('guardrail_tripped', (_context, _agent, error) => {
    const { guardrail, agentOutput } = error.result
    send({ type: 'guardrail_tripped', guardrails: [guardrail.name], message: agentOutput })
  })
  let errors = 0
  session.on('error', ({ error: told }) => {
    const lost = connectionErrorOf(told)
    if (++errors <= MAX_LOGGED_ERRORS) log.warn({ err: lost ?? told }, 'realtime session reported an error')
    send({ type: 'error', ...(lost ? UNREACHABLE : describeError(told)) })
  })
}

/** A provider's event: three kinds have messages of their own, and errors come through the session. */
function messageOf(event: { readonly type: string; readonly [key: string]: unknown }): ServerMessage | undefined {
  const { item_id, content_index, response_id } = event
  switch (event.type) {
    case 'response.output_audio.delta':
      return { type: 'audio', audio: event['delta'], item_id, content_index, response_id }
    case 'response.output_audio.done':
      return { type: 'audio_end', item_id, content_index }
    case 'input_audio_buffer.timeout_triggered':
      return { type: 'input_audio_timeout_triggered' }
    case 'error':
      return undefined
    default:
      return { type: 'raw_model_event', raw_type: event.type, data: publicEvent(event) }
  }
}

const UNREACHABLE = { error: RUN_ERRORS.upstream_unavailable.message, code: 'upstream_unavailable' } as const

/** What keeps the provider from being reached, out of an event of the socket, which also knows the address with its keys. */
export function connectionErrorOf(told: unknown): Error | undefined {
  const { type, error } = (told ?? {}) as { readonly type?: unknown; readonly error?: unknown }
  return type === 'error' && error instanceof Error ? error : undefined
}

/** What the provider says of a client's own event is the client's business; what went wrong in here is not. */
function describeError(error: unknown): { readonly error: string; readonly code: ErrorCode | RunErrorCode } {
  const { type, error: told } = (error ?? {}) as {
    readonly type?: unknown
    readonly error?: { readonly message?: unknown }
  }
  if (type === 'error' && typeof told?.message === 'string') {
    return { error: told.message, code: 'upstream_invalid_request' }
  }
  const isOfTheModel = error instanceof Error && error.constructor.name === 'ModelBehaviorError'
  if (isOfTheModel) return { error: error.message, code: 'upstream_invalid_response' }
  return { error: 'Something failed in the session.', code: 'internal_error' }
}
