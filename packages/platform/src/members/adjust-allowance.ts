import { type AdjustmentCreate, type LedgerEntry, ServiceError } from '@bureau/protocol'
import { and, desc, eq, getTableColumns, lt, sql } from 'drizzle-orm'
import type { z } from 'zod'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { type Page, type PageRequest, toPage } from '../db/page.ts'
import { allowanceLedger } from '../db/schema.ts'
import { refusedField } from '../refused-field.ts'
import { type MemberRow, toMicro } from './allowance-policy.ts'
import { bookLedger, holdPeriod, type LedgerRow, ledgerView } from './ledger.repo.ts'
import { findMember, lockMember, type MemberKey } from './members.repo.ts'

/** `grant` raises what may be spent; `correction` and `backfill` change what counts as spent, by a signed amount. */
export type Adjustment = z.output<typeof AdjustmentCreate>

/**
 * Books an adjustment, once per `idempotencyKey`. `replayed` says that this very request was booked before.
 *
 * @throws ServiceError `member_not_found`, `invalid_adjustment`, `idempotency_key_reused` (another request had the key)
 */
export const adjustAllowance = tenantOperation(
  { source: import.meta.url, name: 'adjustAllowance', lane: 'interactive' },
  async (
    tx,
    args: MemberKey & { actor: string; idempotencyKey: string; fingerprint: Uint8Array; adjustment: Adjustment },
  ): Promise<{ entry: LedgerEntry; replayed: boolean }> => {
    const { ownerId, actor, idempotencyKey, fingerprint, adjustment } = args
    const held = await lockMember(tx, args)
    const dedupeKey = `adj:${idempotencyKey}`
    const earlier = await findEntry(tx, ownerId, held.member.id, dedupeKey)
    if (earlier) return replay(earlier, fingerprint)

    const at = instantOf(adjustment, held.now)
    const { start, end } = at === held.now ? held : await boundsAt(tx, held.member, at)
    const period = { ownerId, memberId: held.member.id, periodStart: start }
    await holdPeriod(tx, { ...period, periodEnd: end })
    const { kind, messages = 0, tokens = 0, costUsd = 0, note } = adjustment
    const amounts = { messages, tokens, costMicro: toMicro(costUsd) }
    const booked = await bookLedger(tx, {
      ...period,
      ...amounts,
      kind,
      dedupeKey,
      occurredAt: at,
      note,
      actor,
      fingerprint,
    })
    if (!booked) throw new Error('the adjustment was booked under the lock of its member')
    return { entry: ledgerView(booked.entry), replayed: false }
  },
)

/** Newest first. `periodStart` (RFC 3339) keeps one period. @throws ServiceError `member_not_found` */
export const listLedger = tenantOperation(
  { source: import.meta.url, name: 'listLedger', lane: 'interactive', onlyReads: true },
  async (tx, args: MemberKey & PageRequest & { periodStart?: string }): Promise<Page<LedgerEntry>> => {
    const { ownerId, limit, after, periodStart } = args
    const found = await findMember(tx, args)
    if (!found) throw new ServiceError('member_not_found')
    const rows = await tx
      .select({ ...getTableColumns(allowanceLedger), estimated: IS_ESTIMATED })
      .from(allowanceLedger)
      .where(
        and(
          eq(allowanceLedger.memberId, found.member.id),
          eq(allowanceLedger.ownerId, ownerId),
          periodStart ? eq(allowanceLedger.periodStart, new Date(periodStart)) : undefined,
          after ? lt(allowanceLedger.id, Number(after[1])) : undefined,
        ),
      )
      .orderBy(desc(allowanceLedger.id))
      .limit(limit + 1)
    return toPage(rows, limit, ledgerView, (row) => [row.createdAt.toISOString(), String(row.id)])
  },
)

/**
 * Messages are counted; only what a run has spent on models may be estimated. The tables are named here: among what is selected
 * from one table, drizzle leaves the names of tables away.
 */
const IS_ESTIMATED = sql<boolean>`(tokens <> 0 OR cost_micro <> 0) AND EXISTS (SELECT FROM usage_entries u
  WHERE u.owner_id = allowance_ledger.owner_id AND u.run_id = allowance_ledger.run_id AND u.estimated)`

function instantOf({ kind, messages = 0, tokens = 0, costUsd = 0, occurredAt }: Adjustment, now: Date): Date {
  const at = occurredAt === undefined ? now : new Date(occurredAt)
  const negative = Object.entries({ messages, tokens, costUsd }).find(([, amount]) => amount < 0)
  if (kind === 'grant' && negative) throw invalid(negative[0], 'A grant cannot be negative.')
  if (occurredAt !== undefined && kind !== 'backfill') throw invalid('occurredAt', 'Only a backfill has occurredAt.')
  if (Number.isNaN(at.getTime()) || at.getTime() > now.getTime())
    throw invalid('occurredAt', 'occurredAt must lie in the past.')
  return at
}

const invalid = (field: string, message: string): ServiceError => refusedField('invalid_adjustment', field, message)

async function boundsAt(tx: Tx, member: MemberRow, at: Date): Promise<{ start: Date; end: Date }> {
  const { period, timeZone, anchorDay } = member
  const { rows } = await tx.execute<{ start: number; end: number }>(sql`
    SELECT (extract(epoch FROM ps) * 1000)::float8 AS start, (extract(epoch FROM pe) * 1000)::float8 AS end
    FROM allowance_bounds(${period}, ${timeZone}, ${anchorDay}::int, ${at.toISOString()}::timestamptz)`)
  const bounds = rows[0]
  if (!bounds) throw new Error('allowance_bounds gave no row')
  return { start: new Date(bounds.start), end: new Date(bounds.end) }
}

async function findEntry(tx: Tx, ownerId: string, memberId: string, key: string): Promise<LedgerRow | undefined> {
  const [row] = await tx
    .select()
    .from(allowanceLedger)
    .where(
      and(
        eq(allowanceLedger.memberId, memberId),
        eq(allowanceLedger.ownerId, ownerId),
        eq(allowanceLedger.dedupeKey, key),
      ),
    )
  return row
}

function replay(earlier: LedgerRow, fingerprint: Uint8Array): { entry: LedgerEntry; replayed: boolean } {
  if (!earlier.fingerprint || !Buffer.from(earlier.fingerprint).equals(fingerprint)) {
    throw new ServiceError('idempotency_key_reused')
  }
  return { entry: ledgerView(earlier), replayed: true }
}
