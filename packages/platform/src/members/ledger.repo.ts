import type { LedgerEntry } from '@bureau/protocol'
import { and, eq, getTableColumns, sql } from 'drizzle-orm'
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
      )
      .returning(getTableColumns(allowancePeriods)),
  )
  return tx
    .with(booked, moved)
    .select()
    .from(booked)
    .leftJoin(moved, sql`true`)
})

/** What was booked, and the period as it stands afterwards. */
type Booking = { readonly entry: LedgerRow; readonly period: PeriodRow }

/**
 * Books an amount, once per member and `dedupeKey`, and moves the counters of its period with it.
 *
 * The caller holds the lock of the member's row. Undefined: it was booked before and nothing changed.
 */
export async function bookLedger(tx: Tx, entry: NewLedgerEntry): Promise<Booking | undefined> {
  const nothing = { runId: null, messages: 0, tokens: 0, costMicro: 0, note: null, actor: null, fingerprint: null }
  const [row] = await insertBooking(tx, { ...nothing, ...entry })
  if (!row) return undefined
  const { booked, moved } = row
  if (!moved) throw new Error('the allowance period of a booking is not there')
  return { entry: booked, period: moved }
}

type PeriodKey = { readonly ownerId: string; readonly memberId: string; readonly periodStart: Date }

const isPeriod = ({ ownerId, memberId, periodStart }: PeriodKey) =>
  and(
    eq(allowancePeriods.memberId, memberId),
    eq(allowancePeriods.periodStart, periodStart),
    eq(allowancePeriods.ownerId, ownerId),
  )

const selectPeriod = prepared((tx, key: PeriodKey) => tx.select().from(allowancePeriods).where(isPeriod(key)))

/** The period; created when this is its first use. Whoever holds the lock of its member holds the period as well. */
export async function holdPeriod(tx: Tx, key: PeriodKey & { readonly periodEnd: Date }): Promise<PeriodRow> {
  const [present] = await selectPeriod(tx, key)
  if (present) return present
  const [created] = await tx.insert(allowancePeriods).values(key).returning()
  if (!created) throw new Error('the allowance period was not stored')
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
