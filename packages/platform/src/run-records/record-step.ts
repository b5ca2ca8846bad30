import { and, eq, sql } from 'drizzle-orm'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { runs, runStates } from '../db/schema.ts'
import { together } from '../db/together.ts'
import { chargeCalls } from './charge-calls.ts'
import { holdRun } from './hold-run.ts'
import { type RunOutputRecord, storeOutput } from './run-output.repo.ts'
import { isRun, type RunKey } from './runs.repo.ts'

/** Who writes: the process that was given the run. All its writes are void once the run was taken from it. */
export type RunWriter = RunKey & { readonly bootId: string }

/** `ok`: written. `fenced`: written nothing, the run has ended or belongs to another process; stop at once. */
export type WriteOutcome = 'ok' | 'fenced'

/** A step of a run: what it brought, and from where another process would go on. */
type RunStep = Pick<RunOutputRecord, 'items' | 'calls'> & {
  /** Of the schema that `state` has. */
  readonly version: number
  /** JSON. */
  readonly state: string
}

/**
 * Records a step: its complete items, its usage with what it costs the consumer, and the new state, in one transaction.
 *
 * Safe to repeat after a lost answer: items and calls are known by `id` and `callSeq`.
 */
export const recordStep = tenantOperation(
  { source: import.meta.url, name: 'recordStep', lane: 'run' },
  async (tx, step: RunWriter & RunStep): Promise<WriteOutcome> => {
    const { ownerId, runId, bootId, items, calls } = step
    const hasOutput = items.length + calls.length > 0
    const held = hasOutput ? await holdRun(tx, { ownerId, runId }) : undefined
    if (hasOutput && (held?.run.bootId !== bootId || held.run.state !== 'running')) return 'fenced'
    const [[kept]] = await together(
      keepState(tx, step),
      ...(held ? [storeOutput(tx, held.run, { items, calls }), chargeCalls(tx, held, calls)] : []),
    )
    if (!kept) return 'fenced'
    if (kept.stalled > 0) await tx.update(runs).set({ stalled: 0 }).where(isRun({ ownerId, runId }))
    return 'ok'
  },
)

type KeptState = RunWriter & Pick<RunStep, 'version' | 'state'>

/** The state of a run that is this process's, which is locked. */
const keepState = prepared((tx: Tx, { ownerId, runId, bootId, version, state }: KeptState) => {
  const own = tx.$with('own').as(
    tx
      .select({ id: runs.id, ownerId: runs.ownerId, stalled: runs.stalled })
      .from(runs)
      .where(and(isRun({ ownerId, runId }), eq(runs.bootId, bootId), eq(runs.state, 'running')))
      .for('no key update'),
  )
  const kept = tx.$with('kept').as(
    tx
      .insert(runStates)
      // In the order of the table's columns.
      .select(sql`SELECT id, owner_id, ${version}::integer, ${state}::text FROM own`)
      .onConflictDoUpdate({
        target: runStates.runId,
        set: { version: sql`excluded.version`, state: sql`excluded.state` },
      }),
  )
  return tx.with(own, kept).select({ stalled: own.stalled }).from(own)
})
