import type { LedgerEntry } from '@bureau/protocol'
import { and, eq, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { allowanceLedger, allowancePeriods } from '../db/schema.ts'
import { type PeriodRow, toUsd } from './allowance-policy.ts'

export type LedgerRow = typeof allowanceLedger.$inferSelect
type NewLedgerEntry = Omit<typeof allowanceLedger.$inferInsert, 'id' | 'createdAt'>

/** The entry and, with it, the counters of its period: both or, when it was booked before, neither. */
const insertBooking = prepared((tx, entry: Required<NewLedgerEntry>) => {
  const { ownerId, memberId, periodStart, kind, dedupeKey, runId, occurredAt } = entry
  const { messages, tokens, costMicro, note, actor, fingerprint } = entry
  const what = { ownerId, memberId, periodStart, kind, dedupeKey, runId, occurredAt }
  const values = { ...what, messages, tokens, costMicro, note, actor, fingerprint }
  const booked = tx.$with('booked').as(tx.insert(allowanceLedger).values(values).onConflictDoNothing().returning())
  const raised = (counter: PgColumn, amount: PgColumn) =>
    sql`${counter} + CASE ${booked.kind} WHEN 'grant' THEN ${amount} ELSE 0 END`
  const used = (counter: PgColumn, amount: PgColumn) =>
    sql`${counter} + CASE ${booked.kind} WHEN 'grant' THEN 0 ELSE ${amount} END`
  const columns = allowancePeriods
  const moved = tx.$with('moved').as(
    tx
      .update(allowancePeriods)
      .set({
        extraMessages: raised(columns.extraMessages, booked.messages),
        extraTokens: raised(columns.extraTokens, booked.tokens),
        extraCostMicro: raised(columns.extraCostMicro, booked.costMicro),
        usedMessages: used(columns.usedMessages, booked.messages),
        usedTokens: used(columns.usedTokens, booked.tokens),
        usedCostMicro: used(columns.usedCostMicro, booked.costMicro),
      })
      .from(booked)
      .where(
        and(
          eq(columns.memberId, booked.memberId),
          eq(columns.periodStart, booked.periodStart),
          eq(columns.ownerId, booked.ownerId),
        ),
      ),
  )
  return tx.with(booked, moved).select().from(booked)
})

/**
 * Books an amount, once per member and `dedupeKey`, and moves the counters of its period with it.
 *
 * The caller holds the lock of the period's row. Undefined: it was booked before and nothing changed.
 */
export async function bookLedger(tx: Tx, entry: NewLedgerEntry): Promise<LedgerRow | undefined> {
  const nothing = { runId: null, messages: 0, tokens: 0, costMicro: 0, note: null, actor: null, fingerprint: null }
  const [row] = await insertBooking(tx, { ...nothing, ...entry })
  return row
}

type PeriodKey = { readonly ownerId: string; readonly memberId: string; readonly periodStart: Date }

const isPeriod = ({ ownerId, memberId, periodStart }: PeriodKey) =>
  and(
    eq(allowancePeriods.memberId, memberId),
    eq(allowancePeriods.periodStart, periodStart),
    eq(allowancePeriods.ownerId, ownerId),
  )

const selectLockedPeriod = prepared((tx, key: PeriodKey) =>
  tx.select().from(allowancePeriods).where(isPeriod(key)).for('update'),
)

/** The period's row, locked, if there was a use of it. */
export async function lockPeriod(tx: Tx, key: PeriodKey): Promise<PeriodRow | undefined> {
  const [period] = await selectLockedPeriod(tx, key)
  return period
}

/** The period's row, locked; created when this is the first use of the period. */
export async function holdPeriod(tx: Tx, key: PeriodKey & { readonly periodEnd: Date }) {
  const present = await lockPeriod(tx, key)
  if (present) return present
  await tx.insert(allowancePeriods).values(key).onConflictDoNothing()
  const created = await lockPeriod(tx, key)
  if (!created) throw new Error('the allowance period vanished')
  return created
}

/** What is booked by hand is never estimated. */
export function ledgerView(row: LedgerRow & { readonly estimated?: boolean }): LedgerEntry {
  return {
    id: String(row.id),
    kind: row.kind,
    runId: row.runId,
    messages: row.messages,
    tokens: row.tokens,
    costUsd: toUsd(row.costMicro),
    estimated: row.estimated ?? false,
    periodStart: row.periodStart.toISOString(),
    note: row.note,
    actor: row.actor,
    createdAt: row.createdAt.toISOString(),
  }
}
