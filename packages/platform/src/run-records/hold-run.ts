import { and, eq, sql } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { chats, members, runs } from '../db/schema.ts'
import type { MemberRow } from '../members/allowance-policy.ts'
import { isRun, type RunKey, type RunRow } from './runs.repo.ts'

/** A run with everything that its writes change, locked. */
export type HeldRun = {
  readonly run: RunRow
  /** Null: the run is not charged to anybody. */
  readonly member: MemberRow | null
  /** The time of the transaction, as its records have it. */
  readonly now: Date
}

/**
 * Locks a run, its chat, and the member that it is charged to. Undefined: there is no such run.
 *
 * All transactions lock in the order member, chat, run. Periods need no locks: nobody changes one without its member's,
 * under which a change of policy also moves active runs to another period.
 */
export async function holdRun(tx: Tx, key: RunKey): Promise<HeldRun | undefined> {
  const [held] = await lockAll(tx, key)
  if (!held) return undefined
  const { runs: run, chat, member } = held
  const isCharged = run.memberId !== null && run.periodStart !== null
  if (isCharged && !member) throw new Error('the member of a run vanished')
  return { run, member: isCharged ? member : null, now: chat.now }
}

/** Each is locked before it can be joined; the run's row, when it has been. */
const lockAll = prepared((tx, { ownerId, runId }: RunKey) => {
  const ofRun = (column: 'member_id' | 'chat_id') => sql`(SELECT ${sql.raw(column)} FROM runs WHERE id = ${runId})`
  const member = tx.$with('member').as(
    tx
      .select()
      .from(members)
      .where(and(eq(members.id, ofRun('member_id')), eq(members.ownerId, ownerId)))
      .for('update'),
  )
  const chat = tx.$with('chat').as(
    tx
      .select({ id: chats.id, now: sql<Date>`now()::timestamptz(3)`.mapWith(runs.createdAt).as('now') })
      .from(chats)
      .where(
        and(
          eq(chats.id, ofRun('chat_id')),
          eq(chats.ownerId, ownerId),
          sql`(SELECT count(*) FROM member) >= 0`, // first of all
        ),
      )
      .for('update'),
  )
  return tx
    .with(member, chat)
    .select()
    .from(runs)
    .innerJoin(chat, eq(chat.id, runs.chatId))
    .leftJoin(member, sql`true`)
    .where(isRun({ ownerId, runId }))
    .for('update', { of: runs })
})

const lockRun = prepared((tx, key: RunKey) => tx.select().from(runs).where(isRun(key)).for('update'))

/** The run alone, locked: for writes that change nothing else. */
export async function holdRunOnly(tx: Tx, key: RunKey): Promise<RunRow | undefined> {
  const [run] = await lockRun(tx, key)
  return run
}
