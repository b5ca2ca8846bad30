import { aggregateTokenUsage, EventType, type Interrupt, PROTOCOL_VERSION, type TokenUsage } from '@ag-ui/core'
import type { EncodeEvent, LogEvent } from '@bureau/runtime'
import { eventEnvelope, type RunEnded, type RunEvent, sseFrame, type UsageByModel } from '@bureau/protocol'
import { type AguiRun, knowsAll } from './read-request.ts'
import { frame } from './frame.ts'
import { ItemEvents } from './item-events.ts'
import { StateEvents } from './state-events.ts'

/** AG-UI 1.0 events, legal for the protocol's own client. */
export function aguiEncoder(run: AguiRun): EncodeEvent {
  const items = new ItemEvents(run)
  const state = new StateEvents(run.state)
  const interrupts: Interrupt[] = []
  return (event) => {
    if (event.type === 'state.changed') return state.changed(event.state)
    if (event.type === 'approval.requested') interrupts.push(items.onApprovalRequested(event))
    if (event.type === 'run.ended' && event.status === 'waiting')
      return interrupted(event, { items, state, run, interrupts })
    return framesOf(event, items, run)
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
  return runStarted(run) + frame({ type: EventType.RUN_ERROR, message: error.message, code: error.code })
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
  'run.resumed': '',
  'log.ended': '',
  'log.reset': '',
} as const

function rawFrame(event: RunEvent): string {
  const text = eventEnvelope(event)
  return text === undefined ? '' : `data: {"type":"RAW","event":${text}}\n\n`
}

/** An event of the agency's own under its type, with its value, or with all of it. What is not JSON is left out. */
function ownFrame(event: RunEvent & { readonly type: 'custom' }): string {
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
  const result = ended.output === null || ended.output === undefined ? {} : { result: ended.output }
  const pending = knowsAll(run) && pendingToolCallIds.length > 0 ? { pendingToolCallIds: [...pendingToolCallIds] } : {}
  const outcome = { type: 'success' as const, ...pending }
  return frame({ type: EventType.RUN_FINISHED, threadId, runId, ...result, outcome, ...usage })
}

function usageOf(ended: RunEnded): { readonly usage?: TokenUsage[] } {
  return ended.usage ? { usage: tokenUsage(ended.usage_by_model) } : {}
}

function tokenUsage(usages: readonly UsageByModel[]): TokenUsage[] {
  return aggregateTokenUsage(
    usages.map(({ model, usage }) => ({
      model,
      inputTokens: usage.input_tokens,
      outputTokens: usage.output_tokens,
      totalTokens: usage.total_tokens,
      cachedInputTokens: usage.cached_tokens,
      cacheWriteInputTokens: usage.cache_write_tokens,
      ...(usage.reasoning_tokens !== undefined && { reasoningTokens: usage.reasoning_tokens }),
    })),
  )
}
