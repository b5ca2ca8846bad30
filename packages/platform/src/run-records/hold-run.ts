import { and, eq, sql } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { chats, members, runs } from '../db/schema.ts'
import type { Limits } from '../members/allowance-policy.ts'
import { isRun, RUN_FACTS, type RunFacts, type RunKey } from './runs.repo.ts'

/** A run with everything that its writes change, locked. */
export type HeldRun = {
  readonly run: RunFacts
  /** Null: the run is not charged to anybody. */
  readonly member: Limits | null
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
  const { run, member, now } = held
  const isCharged = run.memberId !== null && run.periodStart !== null
  if (isCharged && !member) throw new Error('the member of a run vanished')
  return { run, member: isCharged ? member : null, now }
}

/** Each is locked before it can be joined; the run's row, when it has been. */
const lockAll = prepared((tx, key: RunKey) => {
  const { member, chat, limits } = lockedFirst(tx, key)
  return tx
    .with(member, chat)
    .select({ run: RUN_FACTS, now: chat.now, member: limits })
    .from(runs)
    .innerJoin(chat, eq(chat.id, runs.chatId))
    .leftJoin(member, sql`true`)
    .where(isRun(key))
    .for('update', { of: runs })
})

/** The parts of a statement that lock what is locked before a run: its member, if that `isWanted`, and its chat. */
export function lockedFirst(tx: Tx, key: RunKey, isWanted = sql`true`) {
  const ofRun = (column: 'member_id' | 'chat_id') => sql`(SELECT ${sql.raw(column)} FROM runs WHERE id = ${key.runId})`
  const member = tx.$with('member').as(
    tx
      .select({
        id: members.id,
        limitMessages: members.limitMessages,
        limitTokens: members.limitTokens,
        limitCostMicro: members.limitCostMicro,
      })
      .from(members)
      .where(and(eq(members.id, ofRun('member_id')), eq(members.ownerId, key.ownerId), isWanted))
      .for('update'),
  )
  const chat = tx.$with('chat').as(
    tx
      .select({
        id: chats.id,
        nextSeq: chats.nextSeq,
        now: sql<Date>`now()::timestamptz(3)`.mapWith(runs.createdAt).as('now'),
      })
      .from(chats)
      .where(
        and(
          eq(chats.id, ofRun('chat_id')),
          eq(chats.ownerId, key.ownerId),
          sql`(SELECT count(*) FROM member) >= 0`, // first of all
        ),
      )
      .for('update'),
  )
  const { id, limitMessages, limitTokens, limitCostMicro } = member
  return { member, chat, limits: { id, limitMessages, limitTokens, limitCostMicro } }
}

const lockRun = prepared((tx, key: RunKey) => tx.select(RUN_FACTS).from(runs).where(isRun(key)).for('update'))

/** The run alone, locked: for writes that change nothing else. */
export async function holdRunOnly(tx: Tx, key: RunKey): Promise<RunFacts | undefined> {
  const [run] = await lockRun(tx, key)
  return run
}
