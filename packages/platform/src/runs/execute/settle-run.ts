import { setTimeout as sleep } from 'node:timers/promises'
import { type ApprovalRequest, type Message, RUN_ERRORS, type RunEnded, type RunErrorCode } from '@bureau/protocol'
import type { LogEvent, Logger } from '@bureau/runtime'
import { DatabaseError } from '../../db/database.ts'
import { newId } from '../../ids.ts'
import type { PlatformStore } from '../../platform-store.ts'
import { type RecordedOutcome, recordOutcome } from '../settle/record-outcome.ts'
import { endingOf } from '../settle/ending-events.ts'
import type { Ending } from '../settle/write-outcome.ts'
import type { ActiveRun } from './active-run.ts'

/** How the work on a run came to its end. */
export type Outcome = Pick<RunEnded, 'status' | 'usage'> & {
  readonly error: { readonly code: string; readonly message?: string } | null
  readonly fileIdsMap?: Readonly<Record<string, string>>
  readonly callerCalls?: readonly string[]
  /** True: the model was not asked for anything. */
  readonly unasked?: boolean
  /** The calls for which it waits. */
  readonly approvals?: readonly ApprovalRequest[]
}

type SettleOptions = { readonly store: PlatformStore; readonly log: Logger }
type FinalState = Pick<Ending, 'state' | 'error'>
type UnsealedEnding = Omit<Ending, 'lastEventSeq' | 'eventChunk'>

const RETRY_MS = 500

/**
 * Ends a run: everything that is not stored yet, its state, its charges, all in one transaction. Clients see the last
 * events only when that has committed, however long the database takes.
 */
export async function settleRun(run: ActiveRun, outcome: Outcome, options: SettleOptions): Promise<void> {
  run.recorder.flush()
  const { ownerId, runId, bootId } = run.reserved
  const rest = await run.progress.close()
  let ending: UnsealedEnding = {
    ...finalStateOf(run, outcome),
    ...rest,
    partial: partialOf(run),
    ...(outcome.unasked && { unasked: true }),
  }
  while (!run.fenced) {
    try {
      const sealed = await run.log.seal(eventsOf(run, ending, outcome))
      const whole = { ...ending, lastEventSeq: sealed.lastSeq, eventChunk: sealed.chunk }
      const result = await options.store.db.run(recordOutcome, { ownerId, runId, bootId, ending: whole })
      if (isOurs(result, ending)) run.log.release()
      else run.fence()
      return
    } catch (error) {
      options.log.error({ err: error, runId }, 'the end of a run could not be recorded; it is tried again')
      if (error instanceof DatabaseError) ending = withLess(ending)
      await sleep(RETRY_MS, undefined, { ref: false })
    }
  }
}

/** Ended by this call, or by an earlier one whose answer was lost. */
function isOurs(result: RecordedOutcome, { state, error }: FinalState): boolean {
  if (result.outcome === 'fenced') return false
  return result.run.status === state && (result.run.error?.code ?? null) === (error?.code ?? null)
}

const BROKEN: FinalState = { state: 'failed', error: { code: 'internal_error' } }

/** What the database refuses it will refuse again: the run then ends without what it has said, at last without what that has cost. */
function withLess(refused: UnsealedEnding): UnsealedEnding {
  const calls = refused.error === BROKEN.error ? [] : refused.calls
  return { ...refused, ...BROKEN, items: [], partial: null, calls }
}

function finalStateOf(run: ActiveRun, { status, error }: Outcome): FinalState {
  if (run.stoppedBy && status !== 'completed') return { state: 'failed', error: { code: run.stoppedBy } }
  if (status === 'waiting') return { state: 'failed', error: { code: 'approval_required' } }
  if (status !== 'failed') return { state: status, error: null }
  const code = isRunErrorCode(error?.code) ? error.code : 'run_failed'
  return { state: 'failed', error: { code, ...(error?.message !== undefined && { message: error.message }) } }
}

function isRunErrorCode(code: string | undefined): code is RunErrorCode {
  return code !== undefined && Object.hasOwn(RUN_ERRORS, code)
}

/** The message that was being written: kept of a failed run, so that nobody wonders where it went. */
function partialOf({ recorder, progress, reserved: { agent } }: ActiveRun): Ending['partial'] {
  const { partial } = recorder.snapshot(progress.messages)
  if (!partial) return null
  const item: Message = {
    type: 'message',
    role: 'assistant',
    id: partial.item_id,
    status: 'incomplete',
    content: [{ type: 'output_text', text: partial.text, annotations: [] }],
    agent,
    callerAgent: null,
  }
  return { id: newId('msg'), item }
}

function eventsOf(
  run: ActiveRun,
  { state, error }: FinalState,
  { usage, fileIdsMap, callerCalls }: Outcome,
): LogEvent[] {
  return endingOf({
    run_id: run.reserved.runId,
    status: state,
    new_messages: callerCalls ? run.progress.messagesWith(callerCalls) : run.progress.messages,
    usage,
    error: error && { code: error.code, message: error.message ?? RUN_ERRORS[error.code].message },
    ...(fileIdsMap && { file_ids_map: fileIdsMap }),
    ...(callerCalls && { caller_calls: callerCalls }),
  })
}
