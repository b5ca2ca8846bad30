import { messagesWhileWaiting, newMessagesForClient, type RunState } from '@bureau/framework'
import {
  isRetryable,
  type Message,
  NO_USAGE,
  type PlatformRun,
  type PlatformRunError,
  RUN_ERRORS,
  type RunError,
  textOf,
  type Usage,
} from '@bureau/protocol'
import type { RunFacts } from './runs.repo.ts'

/** A run as callers see it. */
export type RunView = PlatformRun

/** What a run produced: the items of its `messages` frame and the entry agent's final text. */
type RunOutput = { readonly outputText: string | null; readonly newMessages: Message[] }

/** True: it has not ended. */
export const isActive = ({ state }: Pick<RunFacts, 'state'>): boolean =>
  state === 'reserved' || state === 'running' || state === 'waiting'

/** `spent` is the sum over the model calls of a run that has not ended. */
export function runView(run: RunFacts, spent: Usage | undefined): RunView {
  return {
    object: 'run',
    runId: run.id,
    chatId: run.chatId,
    apiIntegrationId: run.integrationId,
    agent: run.agent,
    agencyVersion: run.agencyVersion,
    usageRequestId: run.usageRequestId,
    consumerId: run.consumerId,
    status: statusOf(run),
    createdAt: run.createdAt.toISOString(),
    startedAt: run.startedAt?.toISOString() ?? null,
    finishedAt: run.finishedAt?.toISOString() ?? null,
    deadlineAt: run.deadlineAt.toISOString(),
    cancel:
      run.cancelMode && run.cancelRequestedAt
        ? { mode: run.cancelMode, requestedAt: run.cancelRequestedAt.toISOString() }
        : null,
    error: runErrorOf(run),
    usage: run.usage ?? spent ?? (isActive(run) ? null : NO_USAGE),
    lastEventId: String(run.lastEventSeq),
  }
}

export function statusOf(run: RunFacts): RunView['status'] {
  if (!isActive(run)) return run.state as 'completed' | 'failed' | 'cancelled'
  if (run.cancelRequestedAt) return 'cancelling'
  if (run.state === 'waiting') return 'waiting'
  return run.state === 'reserved' ? 'queued' : 'running'
}

/** Why a run failed; null for a run that did not. */
export function runErrorOf({
  errorCode,
  errorMessage,
  errorClass,
}: Pick<RunFacts, 'errorCode' | 'errorMessage' | 'errorClass'>): PlatformRunError | null {
  if (errorCode === null || errorClass === null) return null
  return {
    code: errorCode,
    message: errorMessage ?? '',
    class: errorClass,
    retryable: isRetryable(errorCode, errorClass),
  }
}

/** The error with which a run ended, as callers see it. */
export function runErrorView({ code, message }: RunError): PlatformRunError {
  const { class: errorClass } = RUN_ERRORS[code]
  return { code, message, class: errorClass, retryable: isRetryable(code, errorClass) }
}

/**
 * What its client gets of a run.
 *
 * @param items - The run's messages in order, without the user's.
 * @param run.waiting - How far a run that waits for a person has come: its turn is not among the messages yet.
 */
export function runOutput(
  items: readonly Message[],
  { status, waiting }: { readonly status: RunView['status']; readonly waiting?: RunState | undefined },
): RunOutput {
  const isAnswer = (item: Message): boolean => item.type === 'message' && item.role === 'assistant' && !item.callerAgent
  const answer = items.findLast(isAnswer)
  const left = status === 'completed' ? openCalls(items).map(outputOf) : []
  const newMessages = waiting ? messagesWhileWaiting(items, waiting) : newMessagesForClient(items, [], left)
  return { outputText: answer ? textOf(answer.content) : null, newMessages }
}

/** Calls without an output. A run completes only with those that its caller carries out. */
export function openCalls(items: readonly Message[]): string[] {
  const answered = new Set(items.flatMap(({ type, call_id: id }) => (type === 'function_call_output' ? [id] : [])))
  return items.flatMap(({ type, callerAgent, call_id: id }) =>
    type === 'function_call' && callerAgent == null && id !== undefined && !answered.has(id) ? [id] : [],
  )
}

const outputOf = (call_id: string): Message => ({ type: 'function_call_output', call_id })
