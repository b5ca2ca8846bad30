import { eq } from 'drizzle-orm'
import { tenantOperation } from '../db/operation.ts'
import { replicas } from '../db/schema.ts'
import type { RunWriter } from './record-run-progress.ts'
import { holdRun } from './hold-run.ts'
import { runViews } from './run-views.ts'
import { type RunKey } from './runs.repo.ts'
import { isActive, type RunView } from './run-view.ts'
import { type Ending, settleRun } from './settle-run.ts'

/**
 * `finalized`: this call ended the run. `already_ended`: it had ended, as `run` says; nothing was written. `fenced`: it
 * belongs to another process.
 */
export type FinalizeOutcome =
  | { readonly outcome: 'finalized' | 'already_ended'; readonly run: RunView }
  | { readonly outcome: 'fenced' }

/**
 * Ends a run of this process: state, remaining items and calls, attachments, refund, slot and announcement, all in one
 * transaction. Of all who try to end a run exactly one does.
 */
export const finalizeRun = tenantOperation(
  { source: import.meta.url, name: 'finalizeRun', lane: 'run' },
  async (tx, { ownerId, runId, bootId, ending }: RunWriter & { ending: Ending }): Promise<FinalizeOutcome> => {
    if ((ending.state === 'failed') !== (ending.error !== null)) throw new Error('an error belongs to a failed run')
    const held = await holdRun(tx, { ownerId, runId })
    if (held?.run.bootId !== bootId) return { outcome: 'fenced' }
    if (!isActive(held.run)) return endedAlready(await runViews(tx, ownerId, [held.run]))
    return { outcome: 'finalized', run: await settleRun(tx, held, ending) }
  },
)

/** What recovery writes is numbered so far ahead that no client has seen a higher number. The only gap there is. */
export const RECOVERY_GAP = 1_000_000

/**
 * Ends a run whose process died: `cancelled` if that was wished, otherwise failed with `runner_lost` and refunded.
 *
 * Its frames (`error` for a failed one, `messages`, `end`) have the last numbers up to `lastEventId`.
 */
export const reapRun = tenantOperation(
  { source: import.meta.url, name: 'reapRun', lane: 'run' },
  async (tx, { ownerId, runId }: RunKey): Promise<FinalizeOutcome> => {
    const held = await holdRun(tx, { ownerId, runId })
    if (!held) return { outcome: 'fenced' }
    const { run } = held
    if (!isActive(run)) return endedAlready(await runViews(tx, ownerId, [run]))
    const [replica] = await tx.select({ state: replicas.state }).from(replicas).where(eq(replicas.bootId, run.bootId))
    if (replica?.state === 'live' || replica?.state === 'draining') return { outcome: 'fenced' }
    const cancelled = run.cancelRequestedAt !== null
    const view = await settleRun(tx, held, {
      state: cancelled ? 'cancelled' : 'failed',
      error: cancelled ? null : { code: 'runner_lost' },
      items: [],
      partial: null,
      calls: [],
      lastEventSeq: run.lastEventSeq + RECOVERY_GAP + (cancelled ? 1 : 2),
      eventChunk: null,
    })
    return { outcome: 'finalized', run: view }
  },
)

function endedAlready([run]: readonly RunView[]): FinalizeOutcome {
  if (!run) throw new Error('a run has a view')
  return { outcome: 'already_ended', run }
}
