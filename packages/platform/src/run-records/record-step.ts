import { and, eq, not, sql } from 'drizzle-orm'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { runs, runStates } from '../db/schema.ts'
import { chargeCalls } from './charge-calls.ts'
import { lockedFirst } from './hold-run.ts'
import { outputParts, outputValues, type OutputValues, type RunOutputRecord } from './run-output.repo.ts'
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
  async (tx, { items, calls, state: kept, ...writer }: RunWriter & RunStep): Promise<WriteOutcome> => {
    const values = { ...writer, ...outputValues({ items, calls }), kept }
    let [step] = await writeStep(tx, values)
    if (step?.isLate) [step] = await writeStep(tx, values) // the chat is locked now
    if (!step?.run) return 'fenced'
    const { run, member } = step
    await chargeCalls(tx, { run, member }, calls)
    if (run.stalled > 0) await tx.update(runs).set({ stalled: 0 }).where(isRun(writer))
    return 'ok'
  },
)

type StepValues = OutputValues & Pick<RunWriter, 'bootId'> & { readonly version: number; readonly kept: string }

/**
 * All of a step but its charges, in one statement, of a run that is this process's. What changes is locked: the chat and the
 * run, and before them the member, if there are calls to charge.
 *
 * `isLate`: it has waited for a lock of the chat and does not see what was added meanwhile, which may be the same step. Then
 * it has written nothing.
 */
const writeStep = prepared((tx: Tx, step: StepValues) => {
  const { bootId, version, kept: state, calls } = step
  const { member, chat, limits } = lockedFirst(tx, step, sql`${calls}::jsonb <> '[]'`)
  const isLate = sql<boolean>`${chat.nextSeq} <> (SELECT next_seq FROM chats WHERE chats.id = ${chat.id})`
  const { id, ownerId, integrationId, chatId, memberId, consumerId, periodStart, createdAt, stalled } = runs
  const facts = { id, ownerId, integrationId, chatId, memberId, consumerId, periodStart, createdAt, stalled }
  const own = tx.$with('own').as(
    tx
      .select(facts)
      .from(runs)
      .innerJoin(chat, eq(chat.id, runs.chatId))
      .where(and(isRun(step), eq(runs.bootId, bootId), eq(runs.state, 'running'), not(isLate)))
      .for('no key update', { of: runs }),
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
  return tx
    .with(member, chat, own, kept, ...outputParts(tx, sql`(SELECT chat_id FROM own)`, step))
    .select({
      isLate,
      member: limits,
      run: {
        id: own.id,
        ownerId: own.ownerId,
        integrationId: own.integrationId,
        memberId: own.memberId,
        consumerId: own.consumerId,
        periodStart: own.periodStart,
        createdAt: own.createdAt,
        stalled: own.stalled,
      },
    })
    .from(chat)
    .leftJoin(own, sql`true`)
    .leftJoin(member, sql`true`)
})
