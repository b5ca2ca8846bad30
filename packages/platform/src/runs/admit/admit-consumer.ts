import { ServiceError } from '@bureau/protocol'
import type { Tx } from '../../db/operation.ts'
import { together } from '../../db/together.ts'
import { isExhausted, type MemberRow, type PeriodRow } from '../../members/allowance-policy.ts'
import type { IntegrationRow } from '../../integrations/integrations.repo.ts'
import { holdPeriod } from '../../members/ledger.repo.ts'
import { findMember, lockMember, type MemberKey } from '../../members/members.repo.ts'
import type { CompletionRequest } from './completion-request.ts'

export type HeldAllowance = { readonly member: MemberRow; readonly period: PeriodRow }

/** Who asks whom: the integration, and how it knows the consumer that the request names. */
export type Asked = {
  readonly integration: IntegrationRow
  /** Null: the consumer is not registered, or none is named. */
  readonly memberStatus: MemberRow['status'] | null
}

type Asking = Pick<CompletionRequest, 'consumerId' | 'usageRequestId'>

/** @throws ServiceError `allowance_attribution_required`: the integration has to know who asks. */
export function requireAttribution({ consumerId, usageRequestId }: Asking, integration: IntegrationRow): void {
  if (integration.allowancesEnabled && (consumerId === null || usageRequestId === null)) {
    throw new ServiceError('allowance_attribution_required')
  }
  if (!integration.settings.membersRequired || consumerId !== null) return
  throw new ServiceError('allowance_attribution_required', {
    message: 'Send consumerId: this integration is for registered members only.',
  })
}

/**
 * Lets a consumer start a run: registered where that is required, and never inactive. With allowances, answers what the
 * run is charged to, locked; without, null.
 *
 * @throws ServiceError `member_not_found`, `consumer_inactive`, `consumer_concurrency_exceeded`,
 *   `consumer_allowance_exhausted`
 */
export async function admitConsumer(
  tx: Tx,
  { consumerId }: Asking,
  { integration, memberStatus }: Asked,
): Promise<HeldAllowance | null> {
  const { id: integrationId, ownerId, allowancesEnabled, settings } = integration
  if (allowancesEnabled) return holdAllowance(tx, { ownerId, integrationId, consumerId: consumerId ?? '' })
  if (memberStatus === 'inactive') throw new ServiceError('consumer_inactive')
  if (memberStatus === null && settings.membersRequired) throw new ServiceError('member_not_found')
  return null
}

/**
 * The member and its current period, locked, if it may start another run.
 *
 * A run in progress may end above the limit; only the next one is refused.
 */
async function holdAllowance(tx: Tx, key: MemberKey): Promise<HeldAllowance> {
  // The second is read when the first is locked: a statement of its own sees what was counted meanwhile.
  const [held, current] = await together(lockMember(tx, key), findMember(tx, key))
  const { member, start, end, now } = held
  if (member.status !== 'active') throw new ServiceError('consumer_inactive')
  if (member.activeRuns >= member.maxConcurrent) throw new ServiceError('consumer_concurrency_exceeded')
  const period =
    current?.period ??
    (await holdPeriod(tx, { ownerId: key.ownerId, memberId: member.id, periodStart: start, periodEnd: end }))
  if (isExhausted(member, period)) {
    const seconds = Math.max(1, Math.ceil((end.getTime() - now.getTime()) / 1000))
    const headers = member.period === 'lifetime' ? {} : { 'Retry-After': String(seconds) }
    throw new ServiceError('consumer_allowance_exhausted', { headers })
  }
  return { member, period }
}
