import { tenantOperation } from '../db/operation.ts'
import { chargeCalls } from './charge-calls.ts'
import { holdRun } from './hold-run.ts'
import { type RunOutputRecord, storeOutput } from './run-output.repo.ts'
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
  async (tx, args: RunWriter & Pick<RunOutputRecord, 'items' | 'calls'>): Promise<WriteOutcome> => {
    const { ownerId, runId, bootId, items, calls } = args
    const held = await holdRun(tx, { ownerId, runId })
    if (held?.run.bootId !== bootId || held.run.state !== 'running') return 'fenced'
    await storeOutput(tx, held.run, { items, calls })
    await chargeCalls(tx, held, calls)
    return 'ok'
  },
)
