import { tenantOperation } from '../db/operation.ts'
import { chargeCalls } from './charge-calls.ts'
import { holdRun, type ModelCall, type RunItemRecord, storeItems } from './run-progress.repo.ts'
import type { RunKey } from './runs.repo.ts'

/** Who writes: the process that was given the run. All its writes are void once the run was taken from it. */
export type RunWriter = RunKey & { readonly bootId: string }

/** `ok`: written. `fenced`: written nothing, the run has ended or belongs to another process; stop at once. */
export type WriteOutcome = 'ok' | 'fenced'

/**
 * Stores what one model call brought: its complete items, and its usage with what it costs the consumer.
 *
 * Safe to repeat after a lost answer: items and calls are known by `id` and `callSeq`.
 */
export const recordRunProgress = tenantOperation(
  { source: import.meta.url, name: 'recordRunProgress', lane: 'run' },
  async (
    tx,
    args: RunWriter & { items: readonly RunItemRecord[]; calls: readonly ModelCall[] },
  ): Promise<WriteOutcome> => {
    const { ownerId, runId, bootId, items, calls } = args
    const asked = { money: calls.length > 0, chat: items.length > 0 }
    const held = await holdRun(tx, { ownerId, runId, ...asked })
    if (held?.run.bootId !== bootId || held.run.state !== 'running') return 'fenced'
    await storeItems(tx, held.run, items)
    await chargeCalls(tx, held, calls)
    return 'ok'
  },
)
