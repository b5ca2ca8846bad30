import { ServiceError } from '@bureau/protocol'
import type { Tx } from '../db/operation.ts'
import { isExhausted, type MemberRow, type PeriodRow } from '../members/allowance-policy.ts'
import { holdPeriod } from '../members/ledger.repo.ts'
import { lockMember, type MemberKey } from '../members/members.repo.ts'

export type HeldAllowance = { readonly member: MemberRow; readonly period: PeriodRow }

/**
 * The member and its current period, locked, if it may start another run.
 *
 * A run in progress may end above the limit; only the next one is refused.
 *
 * @throws ServiceError `member_not_found`, `consumer_inactive`, `consumer_concurrency_exceeded`,
 *   `consumer_allowance_exhausted`
 */
export async function holdAllowance(tx: Tx, key: MemberKey): Promise<HeldAllowance> {
  const held = await lockMember(tx, key)
  if (!held) throw new ServiceError('member_not_found')
  const { member, start, end, now } = held
  if (member.status !== 'active') throw new ServiceError('consumer_inactive')
  if (member.activeRuns >= member.maxConcurrent) throw new ServiceError('consumer_concurrency_exceeded')
  const period = await holdPeriod(tx, {
    ownerId: key.ownerId,
    memberId: member.id,
    periodStart: start,
    periodEnd: end,
  })
  if (isExhausted(member, period)) {
    const seconds = Math.max(1, Math.ceil((end.getTime() - now.getTime()) / 1000))
    const headers = member.period === 'lifetime' ? {} : { 'Retry-After': String(seconds) }
    throw new ServiceError('consumer_allowance_exhausted', { headers })
  }
  return { member, period }
}
