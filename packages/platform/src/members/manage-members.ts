import { type Allowance, type AllowancePolicy, type Member, ServiceError } from '@bureau/protocol'
import { and, desc, eq, isNull, sql } from 'drizzle-orm'
import { appendAudit } from '../audit/audit.repo.ts'
import { tenantOperation } from '../db/operation.ts'
import { olderThan, type Page, type PageRequest, toPage } from '../db/page.ts'
import { allowancePeriods, members } from '../db/schema.ts'
import { forgetTokens } from './end-sign-ins.ts'
import { changePolicy } from './change-policy.ts'
import {
  currentBounds,
  getMemberView,
  holdIntegration,
  isCurrentPeriod,
  lockMember,
  memberColumns,
  type MemberKey,
  memberView,
  requireIntegration,
  requireTimeZone,
} from './members.repo.ts'
import type { NewMember } from './register-members.ts'

type MemberChanges = Pick<NewMember, 'displayName' | 'metadata' | 'status'>

/** @throws ServiceError `member_not_found` */
export const getMember = tenantOperation(
  { source: import.meta.url, name: 'getMember', lane: 'interactive', onlyReads: true },
  (tx, key: MemberKey): Promise<Member> => getMemberView(tx, key),
)

/** @throws ServiceError `member_not_found` */
export const getAllowance = tenantOperation(
  { source: import.meta.url, name: 'getAllowance', lane: 'interactive', onlyReads: true },
  async (tx, key: MemberKey): Promise<Allowance> => (await getMemberView(tx, key)).allowance,
)

/** Newest first. @throws ServiceError `integration_not_found` */
export const listMembers = tenantOperation(
  { source: import.meta.url, name: 'listMembers', lane: 'interactive', onlyReads: true },
  async (
    tx,
    args: PageRequest & { ownerId: string; integrationId: string; status?: 'active' | 'inactive'; exhausted?: boolean },
  ): Promise<Page<Member>> => {
    const { ownerId, integrationId, status, exhausted, limit, after } = args
    await requireIntegration(tx, ownerId, integrationId)
    const rows = await tx
      .select({ ...memberColumns, period: allowancePeriods })
      .from(members)
      .innerJoin(currentBounds, sql`true`)
      .leftJoin(allowancePeriods, isCurrentPeriod)
      .where(
        and(
          eq(members.integrationId, integrationId),
          eq(members.ownerId, ownerId),
          isNull(members.deletedAt),
          status && eq(members.status, status),
          exhausted === undefined ? undefined : sql`${IS_EXHAUSTED} = ${exhausted}`,
          exhausted === true ? mayBeExhausted(integrationId) : undefined,
          olderThan(members.createdAt, members.id, after),
        ),
      )
      .orderBy(desc(members.createdAt), desc(members.id))
      .limit(limit + 1)
    return toPage(rows, limit, memberView, ({ member }) => [member.createdAt.toISOString(), member.id])
  },
)

/**
 * Members that are exhausted if the period that lasts now is the current one of their policy: few of all, and the database need
 * not compute where the period of each member begins.
 */
const mayBeExhausted = (integrationId: string) => sql`${members.id} = ANY(ARRAY(SELECT m.id FROM members m
  LEFT JOIN allowance_periods p ON p.member_id = m.id AND p.period_start <= now() AND p.period_end > now()
  WHERE m.integration_id = ${integrationId} AND m.deleted_at IS NULL AND (
    coalesce(p.used_messages - p.extra_messages, 0) >= m.limit_messages OR coalesce(p.used_tokens - p.extra_tokens, 0) >= m.limit_tokens
    OR coalesce(p.used_cost_micro - p.extra_cost_micro, 0) >= m.limit_cost_micro)))`

/** `isExhausted` in SQL, for the filter. */
const IS_EXHAUSTED = sql`coalesce(
  coalesce(${allowancePeriods.usedMessages} - ${allowancePeriods.extraMessages}, 0) >= ${members.limitMessages}
  OR coalesce(${allowancePeriods.usedTokens} - ${allowancePeriods.extraTokens}, 0) >= ${members.limitTokens}
  OR coalesce(${allowancePeriods.usedCostMicro} - ${allowancePeriods.extraCostMicro}, 0) >= ${members.limitCostMicro}, false)`

/**
 * Changes a member. Comes before or after each admission, never in between: once it has returned, an inactive member is
 * not admitted any more.
 *
 * @throws ServiceError `member_not_found`, `version_conflict`
 */
export const updateMember = tenantOperation(
  { source: import.meta.url, name: 'updateMember', lane: 'interactive' },
  async (tx, args: MemberKey & { actor: string; ifVersion?: number; changes: MemberChanges }): Promise<Member> => {
    const { ownerId, actor, changes } = args
    const { member } = await lockMember(tx, args)
    await tx
      .update(members)
      .set({ ...changes, version: sql`${members.version} + 1`, updatedAt: sql`now()` })
      .where(and(eq(members.id, member.id), eq(members.ownerId, ownerId)))
    const details = { changed: Object.keys(changes) }
    await appendAudit(tx, ownerId, { actor, action: 'member.updated', target: member.id, details })
    return getMemberView(tx, args)
  },
)

/**
 * Takes a member away, with its tokens of tool servers. Its running responses finish; later completions are refused
 * with `member_not_found`.
 *
 * @throws ServiceError `member_not_found`, `version_conflict`
 */
export const deleteMember = tenantOperation(
  { source: import.meta.url, name: 'deleteMember', lane: 'interactive' },
  async (tx, args: MemberKey & { actor: string; ifVersion?: number }): Promise<void> => {
    const { ownerId, actor } = args
    const { member } = await lockMember(tx, args)
    const own = and(eq(members.id, member.id), eq(members.ownerId, ownerId))
    await tx
      .update(members)
      .set({ deletedAt: sql`now()` })
      .where(own)
    await forgetTokens(tx, args)
    await appendAudit(tx, ownerId, { actor, action: 'member.deleted', target: member.id })
  },
)

/**
 * Gives a member a policy of its own, or with null the integration's default again.
 *
 * @throws ServiceError `member_not_found`, `invalid_allowance` (time zone)
 */
export const setAllowance = tenantOperation(
  { source: import.meta.url, name: 'setAllowance', lane: 'interactive' },
  async (tx, args: MemberKey & { actor: string; policy: AllowancePolicy | null }): Promise<Allowance> => {
    const { ownerId, actor } = args
    const integration = args.policy ? undefined : await holdIntegration(tx, args)
    const { member } = await lockMember(tx, args)
    if (args.policy) await requireTimeZone(tx, args.policy.timeZone)
    const policy = args.policy ?? integration?.defaultAllowance
    if (!policy) throw new ServiceError('integration_not_found')
    const source = args.policy ? 'member' : 'integration_default'
    await changePolicy(tx, [member], { ownerId, policy, source })
    await appendAudit(tx, ownerId, {
      actor,
      action: 'member.allowance_set',
      target: member.id,
      details: { source, policy },
    })
    return (await getMemberView(tx, args)).allowance
  },
)
