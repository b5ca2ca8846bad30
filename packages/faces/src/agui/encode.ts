import { aggregateTokenUsage, EventType, type Interrupt, PROTOCOL_VERSION, type TokenUsage } from '@ag-ui/core'
import type { EncodeEvent, LogEvent } from '@bureau/runtime'
import { eventEnvelope, type RunEnded, type RunEventOf, sseFrame, type UsageByModel } from '@bureau/protocol'
import { type AguiRun, knowsAll } from './read-request.ts'
import { frame, rawFrame } from './frame.ts'
import { ItemEvents } from './item-events.ts'
import { StateEvents } from './state-events.ts'

/** AG-UI 1.0 events, legal for the protocol's own client. */
export function aguiEncoder(run: AguiRun): EncodeEvent {
  const items = new ItemEvents(run)
  const state = new StateEvents(run.state)
  const interrupts: Interrupt[] = []
  let begun = false
  return (event) => {
    // What begins a run is not kept in every log, nor said again where it goes on.
    const begin = begun || event.type === 'run.started' ? '' : runStarted(run)
    begun = true
    if (event.type === 'state.changed') return begin + state.changed(event.state)
    if (event.type === 'approval.requested') interrupts.push(items.onApprovalRequested(event))
    if (event.type === 'run.ended' && event.status === 'waiting')
      return begin + interrupted(event, { items, state, run, interrupts })
    return begin + framesOf(event, items, run)
  }
}

type Interrupted = {
  readonly items: ItemEvents
  readonly state: StateEvents
  readonly run: AguiRun
  readonly interrupts: Interrupt[]
}

/** The run has stopped until somebody decides. Snapshots come first, so that a page that is opened then has them. */
function interrupted(ended: RunEnded, { items, state, run, interrupts }: Interrupted): string {
  const { threadId, runId } = run
  const outcome = { type: 'interrupt', interrupts } as const
  const finished = frame({ type: EventType.RUN_FINISHED, threadId, runId, outcome, ...usageOf(ended) })
  return items.suspend(interrupts) + state.snapshot() + finished
}

/** The whole stream of a request that cannot become a run. */
export function refusedRun(run: AguiRun, error: { readonly code: string; readonly message: string }): string {
  return runStarted(run) + runError(error)
}

/** Ends a stream, whatever is open in it. */
export function runError({ code, message }: { readonly code: string; readonly message: string }): string {
  return frame({ type: EventType.RUN_ERROR, message, code })
}

function framesOf(event: LogEvent, items: ItemEvents, run: AguiRun): string {
  switch (event.type) {
    case 'run.started':
      return runStarted(run)
    case 'agent.updated':
      return items.onAgentUpdated(event.source) + rawFrame(event)
    case 'model.event':
      return items.onModelEvent(event) ?? rawFrame(event)
    case 'item.created':
      return items.onItemCreated(event) ?? rawFrame(event)
    case 'custom':
      return items.onCustom(event.source, event.data) + ownFrame(event) + rawFrame(event)
    case 'oauth.redirect': {
      const { state, server, auth_url } = event
      return namedFrame('oauth_redirect', { state, server, auth_url })
    }
    case 'oauth.status': {
      const { state, server, status } = event
      return namedFrame('oauth_status', { state, server, status })
    }
    case 'run.error':
      return rawFrame(event)
    case 'run.resumed':
      return items.withdraw(event.withdrawn)
    case 'log.reset':
      return items.restore(event.new_messages)
    case 'run.ended':
      return items.settle(event.status) + runEnded(event, run, items.clientIdsOf(event.caller_calls))
    default:
      return NO_FRAME[event.type]
  }
}

/** What waits is part of the last event; the others belong to logs that are kept, and to runs that outlive their process. */
const NO_FRAME = {
  'approval.requested': '',
  'state.changed': '',
  'log.ended': '',
} as const

/** An event of the agency's own under its type, with its value, or with all of it. What is not JSON is left out. */
function ownFrame(event: RunEventOf<'custom'>): string {
  const { type: name, value = event.data } = event.data
  if (typeof name !== 'string' || name === 'error' || eventEnvelope(event) === undefined) return ''
  return frame({ type: EventType.CUSTOM, name, value })
}

/**
 * A frame under a name of its own that is also a legal AG-UI event: the protocol's client does not look at names and
 * gives up at data without a type.
 */
function namedFrame(name: string, payload: Readonly<Record<string, string>>): string {
  return sseFrame(JSON.stringify({ type: EventType.CUSTOM, name, value: payload, ...payload }), { event: name })
}

function runStarted({ threadId, runId, parentRunId }: AguiRun): string {
  const parent = parentRunId === undefined ? {} : { parentRunId }
  return frame({ type: EventType.RUN_STARTED, threadId, runId, protocolVersion: PROTOCOL_VERSION, ...parent })
}

/**
 * The last event: a failed run has no `RUN_FINISHED`, nor has a cancelled one for clients that do not know this outcome. For
 * them it would be a success, or not legal.
 */
function runEnded(ended: RunEnded, run: AguiRun, pendingToolCallIds: readonly string[]): string {
  const { threadId, runId } = run
  const usage = usageOf(ended)
  if (ended.status === 'failed') {
    const { message, code } = ended.error ?? { message: 'The run failed.', code: 'run_failed' }
    return frame({ type: EventType.RUN_ERROR, message, code, ...usage })
  }
  if (ended.status === 'cancelled' && !knowsAll(run)) {
    return frame({ type: EventType.RUN_ERROR, message: 'The run was cancelled.', code: 'cancelled', ...usage })
  }
  if (ended.status === 'cancelled')
    return frame({ type: EventType.RUN_FINISHED, threadId, runId, outcome: { type: 'cancelled' }, ...usage })
  const { resultOf = ({ output }) => output } = run
  const answer = resultOf(ended)
  const result = answer === null || answer === undefined ? {} : { result: answer }
  const pending = knowsAll(run) && pendingToolCallIds.length > 0 ? { pendingToolCallIds: [...pendingToolCallIds] } : {}
  const outcome = { type: 'success' as const, ...pending }
  return frame({ type: EventType.RUN_FINISHED, threadId, runId, ...result, outcome, ...usage })
}

function usageOf(ended: RunEnded): { readonly usage?: TokenUsage[] } {
  const { usage, usage_by_model: byModel } = ended
  if (!usage) return {}
  // Of a run that is recorded, only the sum is known.
  return { usage: tokenUsage(byModel.length === 0 && usage.total_tokens > 0 ? [{ usage }] : byModel) }
}

function tokenUsage(usages: readonly (Pick<UsageByModel, 'usage'> & Partial<UsageByModel>)[]): TokenUsage[] {
  return aggregateTokenUsage(
    usages.map(({ model, usage }) => ({
      ...(model !== undefined && { model }),
      inputTokens: usage.input_tokens,
      outputTokens: usage.output_tokens,
      totalTokens: usage.total_tokens,
      cachedInputTokens: usage.cached_tokens,
      cacheWriteInputTokens: usage.cache_write_tokens,
      ...(usage.reasoning_tokens !== undefined && { reasoningTokens: usage.reasoning_tokens }),
    })),
  )
}
