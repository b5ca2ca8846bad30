import { and, eq, sql } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { allowanceLedger, type runs } from '../db/schema.ts'
import { appendOutbox } from '../outbox/outbox.repo.ts'
import { type Limits, type PeriodRow, remainingOf } from './allowance-policy.ts'
import { bookLedger } from './ledger.repo.ts'

type Amounts = { readonly messages: number; readonly tokens: number; readonly costMicro: number }

/** Owners are notified of a consumer that has used this part of a limit. */
const THRESHOLD = 0.8

type RunRow = typeof runs.$inferSelect
export type ChargedRun = Pick<
  RunRow,
  'id' | 'ownerId' | 'memberId' | 'integrationId' | 'consumerId' | 'periodStart' | 'createdAt'
>
type Debit = { readonly run: ChargedRun; readonly member: Limits; readonly what: string }

/**
 * Charges a run's amount to the period in which the run was reserved, once per `what`. The member is locked.
 *
 * Answers the period as it stands afterwards; undefined when this was charged before.
 */
export async function debitRun(tx: Tx, { run, member, what }: Debit, amounts: Amounts): Promise<PeriodRow | undefined> {
  const booked = await bookLedger(tx, {
    ...chargedTo(run),
    ...amounts,
    kind: 'debit',
    dedupeKey: `run:${run.id}:${what}`,
  })
  if (!booked) return undefined
  const { period } = booked
  const before = {
    ...period,
    usedMessages: period.usedMessages - amounts.messages,
    usedTokens: period.usedTokens - amounts.tokens,
    usedCostMicro: period.usedCostMicro - amounts.costMicro,
  }
  await announceThresholds(tx, { run, member }, before, period)
  return period
}

function chargedTo({ id: runId, ownerId, memberId, periodStart, createdAt: occurredAt }: ChargedRun) {
  if (memberId === null || periodStart === null) throw new Error('the run is not charged to anybody')
  return { ownerId, memberId, periodStart, runId, occurredAt }
}

/**
 * Gives back what a run was charged so far, or its message alone. Once per run, of which there are only charges in the ledger until
 * then. The member is locked.
 */
export async function refundRun(tx: Tx, run: ChargedRun, what: 'all' | 'message'): Promise<void> {
  const [sums] = await tx
    .select({
      messages: sql<number>`coalesce(sum(${allowanceLedger.messages}), 0)`.mapWith(Number),
      tokens: sql<number>`coalesce(sum(${allowanceLedger.tokens}), 0)`.mapWith(Number),
      costMicro: sql<number>`coalesce(sum(${allowanceLedger.costMicro}), 0)`.mapWith(Number),
    })
    .from(allowanceLedger)
    .where(and(eq(allowanceLedger.runId, run.id), eq(allowanceLedger.ownerId, run.ownerId)))
  if (!sums) return
  const spent = what === 'all' ? sums : { messages: sums.messages, tokens: 0, costMicro: 0 }
  await bookLedger(tx, {
    ...chargedTo(run),
    kind: 'refund',
    dedupeKey: `run:${run.id}:refund`,
    messages: 0 - spent.messages,
    tokens: 0 - spent.tokens,
    costMicro: 0 - spent.costMicro,
  })
}

async function announceThresholds(
  tx: Tx,
  { run, member }: Omit<Debit, 'what'>,
  before: PeriodRow,
  after: PeriodRow,
): Promise<void> {
  const [was, is] = [usedPart(member, before), usedPart(member, after)]
  const data = {
    object: 'member',
    id: run.memberId,
    apiIntegrationId: run.integrationId,
    consumerId: run.consumerId,
    periodStart: after.periodStart.toISOString(),
  }
  if (was < 1 && is >= 1) await appendOutbox(tx, run.ownerId, 'member.allowance_exhausted', data)
  else if (was < THRESHOLD && is >= THRESHOLD) {
    await appendOutbox(tx, run.ownerId, 'member.allowance_threshold', data)
  }
}

/** The most used-up limit, 1 being exhausted. 0 without limits. */
function usedPart(member: Limits, period: PeriodRow): number {
  const left = remainingOf(member, period)
  const part = (limit: number | null, extra: number, rest: number | null): number => {
    if (limit === null || rest === null) return 0
    return limit + extra <= 0 ? 1 : 1 - rest / (limit + extra)
  }
  return Math.max(
    part(member.limitMessages, period.extraMessages, left.messages),
    part(member.limitTokens, period.extraTokens, left.tokens),
    part(member.limitCostMicro, period.extraCostMicro, left.costMicro),
  )
}
