import { type Member, ServiceError } from '@bureau/protocol'
import { and, eq, isNull, sql } from 'drizzle-orm'
import { sqlstateOf } from '../db/database-error.ts'
import type { Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { allowancePeriods, integrations, members } from '../db/schema.ts'
import { allowanceView, type MemberRow, type PeriodRow } from './allowance-policy.ts'

export type MemberKey = { readonly ownerId: string; readonly integrationId: string; readonly consumerId: string }

/** A member together with its current period; `period` is null before the first use of it. */
type MemberWithPeriod = {
  readonly member: MemberRow
  readonly start: Date
  readonly end: Date
  readonly period: PeriodRow | null
}

const isMember = ({ ownerId, integrationId, consumerId }: MemberKey) =>
  and(
    eq(members.integrationId, integrationId),
    eq(members.consumerId, consumerId),
    eq(members.ownerId, ownerId),
    isNull(members.deletedAt),
  )

/** The current period of each member, computed by the database: one tz database decides. */
export const currentBounds = sql`LATERAL allowance_bounds(${members.period}, ${members.timeZone}, ${members.anchorDay}, now()) bounds`

export const memberColumns = {
  member: members,
  start: sql<Date>`bounds.ps`.mapWith(allowancePeriods.periodStart),
  end: sql<Date>`bounds.pe`.mapWith(allowancePeriods.periodEnd),
}

export const isCurrentPeriod = and(
  eq(allowancePeriods.memberId, members.id),
  sql`${allowancePeriods.periodStart} = bounds.ps`,
)

const selectMember = prepared((tx, key: MemberKey) =>
  tx
    .select({ ...memberColumns, period: allowancePeriods })
    .from(members)
    .innerJoin(currentBounds, sql`true`)
    .leftJoin(allowancePeriods, isCurrentPeriod)
    .where(isMember(key)),
)

export async function findMember(tx: Tx, key: MemberKey): Promise<MemberWithPeriod | undefined> {
  const [found] = await selectMember(tx, key)
  return found
}

const selectLocked = prepared((tx, key: MemberKey) =>
  tx
    .select({ ...memberColumns, now: sql<Date>`now()`.mapWith(members.createdAt) })
    .from(members)
    .innerJoin(currentBounds, sql`true`)
    .where(isMember(key))
    .for('update', { of: members }),
)

/**
 * The member's row, locked: whoever changes the member or counts against it comes one after the other.
 *
 * @throws ServiceError `member_not_found`; `version_conflict` when it has not the version that is asked for
 */
export async function lockMember(
  tx: Tx,
  { ifVersion, ...key }: MemberKey & { readonly ifVersion?: number },
): Promise<{ member: MemberRow; start: Date; end: Date; now: Date }> {
  const [found] = await selectLocked(tx, key)
  if (!found) throw new ServiceError('member_not_found')
  if (ifVersion !== undefined && ifVersion !== found.member.version) throw new ServiceError('version_conflict')
  return found
}

/** @throws ServiceError `member_not_found` */
export async function getMemberView(tx: Tx, key: MemberKey): Promise<Member> {
  const found = await findMember(tx, key)
  if (!found) throw new ServiceError('member_not_found')
  return memberView(found)
}

type IntegrationKey = Pick<MemberKey, 'ownerId' | 'integrationId'>

export const isIntegration = ({ ownerId, integrationId }: IntegrationKey) =>
  and(eq(integrations.id, integrationId), eq(integrations.ownerId, ownerId), isNull(integrations.deletedAt))

const selectIntegration = (tx: Tx, key: IntegrationKey) => tx.select().from(integrations).where(isIntegration(key))

/** @throws ServiceError `integration_not_found`, the same for foreign and deleted ones. */
export async function requireIntegration(tx: Tx, ownerId: string, integrationId: string) {
  const [integration] = await selectIntegration(tx, { ownerId, integrationId })
  if (!integration) throw new ServiceError('integration_not_found')
  return integration
}

/**
 * The integration, whose default allowance stays what it is until the transaction is over; undefined when it is not there. Held
 * before any member, because a new default is given to the integration first and then to its members.
 */
export async function holdIntegration(tx: Tx, key: IntegrationKey) {
  const [integration] = await selectIntegration(tx, key).for('share')
  return integration
}

/** The ids of an owner's integrations, as a part of a query. */
export const integrationsOf = (tx: Tx, ownerId: string) =>
  tx.select({ id: integrations.id }).from(integrations).where(eq(integrations.ownerId, ownerId))

/** @throws ServiceError `invalid_allowance`: the runtime knows the zone, the database does not. */
export async function requireTimeZone(tx: Tx, timeZone: string): Promise<void> {
  await tx.execute(sql`SAVEPOINT time_zone`)
  try {
    await tx.execute(sql`SELECT now() AT TIME ZONE ${timeZone}::text`)
  } catch (error) {
    if (sqlstateOf(error) !== '22023') throw error
    await tx.execute(sql`ROLLBACK TO SAVEPOINT time_zone`)
    throw new ServiceError('invalid_allowance', { message: 'The time zone is not known.' })
  }
}

/** A member as the owner sees it. */
export function memberView({ member, period, start, end }: MemberWithPeriod): Member {
  return {
    object: 'member',
    id: member.id,
    apiIntegrationId: member.integrationId,
    consumerId: member.consumerId,
    displayName: member.displayName,
    metadata: member.metadata,
    status: member.status,
    activeRuns: member.activeRuns,
    version: member.version,
    createdAt: member.createdAt.toISOString(),
    updatedAt: member.updatedAt.toISOString(),
    allowance: allowanceView(member, period, { start, end }),
  }
}
