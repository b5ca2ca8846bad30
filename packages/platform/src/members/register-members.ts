import { type AllowancePolicy, type ErrorCode, ERRORS, type Member, ServiceError } from '@bureau/protocol'
import { isDeepStrictEqual } from 'node:util'
import { appendAudit } from '../audit/audit.repo.ts'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { integrations, members } from '../db/schema.ts'
import { newId } from '../ids.ts'
import { policyColumns, policyOf } from './allowance-policy.ts'
import { findMember, getMemberView, holdIntegration, requireTimeZone } from './members.repo.ts'

export type NewMember = {
  readonly consumerId: string
  readonly displayName?: string | null
  readonly metadata?: Readonly<Record<string, string>>
  readonly status?: 'active' | 'inactive'
  /** Absent or null: the integration's default. Parsed by `parseAllowancePolicy`. */
  readonly allowance?: AllowancePolicy | null
}

type RegisteredMember =
  | { readonly consumerId: string; readonly status: 'created' | 'exists' }
  | { readonly consumerId: string; readonly status: 'error'; readonly code: ErrorCode }

type Registration = { readonly ownerId: string; readonly integrationId: string; readonly actor: string }

type Integration = typeof integrations.$inferSelect

/**
 * Registers a consumer. `created` is false when it is there already with equal values.
 *
 * @throws ServiceError `integration_not_found`, `invalid_consumer_id`, `invalid_allowance`, `member_exists` (other values)
 */
export const registerMember = tenantOperation(
  { source: import.meta.url, name: 'registerMember', lane: 'interactive' },
  async (
    tx,
    { member, ...args }: Registration & { readonly member: NewMember },
  ): Promise<{ created: boolean; member: Member }> => {
    const integration = await holdIntegration(tx, args)
    if (!integration) throw new ServiceError('integration_not_found')
    const created = await register(tx, integration, member)
    if (created !== undefined) await recordCreated(tx, args, [created])
    const view = await getMemberView(tx, { ...args, consumerId: member.consumerId })
    return { created: created !== undefined, member: view }
  },
)

/** Registers up to 500 consumers; each succeeds or fails for itself. @throws ServiceError `integration_not_found` */
export const registerMembers = tenantOperation(
  { source: import.meta.url, name: 'registerMembers', lane: 'interactive' },
  async (
    tx,
    { members, ...args }: Registration & { readonly members: readonly NewMember[] },
  ): Promise<RegisteredMember[]> => {
    const integration = await holdIntegration(tx, args)
    if (!integration) throw new ServiceError('integration_not_found')
    const results = new Map<NewMember, RegisteredMember>()
    const ids: string[] = []
    // All in one order: otherwise two lists with the same consumers would wait for each other.
    for (const member of members.toSorted(byConsumer)) {
      const { consumerId } = member
      try {
        const created = await register(tx, integration, member)
        if (created !== undefined) ids.push(created)
        results.set(member, { consumerId, status: created === undefined ? 'exists' : 'created' })
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error
        results.set(member, { consumerId, status: 'error', code: error.code })
      }
    }
    await recordCreated(tx, args, ids)
    return members.map((member) => results.get(member)!)
  },
)

function byConsumer({ consumerId: a }: NewMember, { consumerId: b }: NewMember): number {
  return a < b ? -1 : Number(a > b)
}

function recordCreated(tx: Tx, { ownerId, actor }: Registration, ids: readonly string[]): Promise<void> {
  return appendAudit(tx, ownerId, ...ids.map((target) => ({ actor, action: 'member.created', target })))
}

/** The id of a new member; undefined when it is there already, with equal values. */
async function register(tx: Tx, integration: Integration, member: NewMember): Promise<string | undefined> {
  const { consumerId, displayName = null, metadata = {}, status = 'active', allowance = null } = member
  if (!/^[A-Za-z0-9._:@+=~|-]{1,256}$/.test(consumerId)) throw refusedId('invalid_consumer_id')
  if (allowance && allowance.timeZone !== 'UTC') await requireTimeZone(tx, allowance.timeZone)
  const { ownerId, id: integrationId, defaultAllowance } = integration
  const policySource = allowance ? 'member' : 'integration_default'
  const [stored] = await tx
    .insert(members)
    .values({
      id: newId('mem'),
      ownerId,
      integrationId,
      consumerId,
      displayName,
      metadata,
      status,
      policySource,
      ...policyColumns(allowance ?? defaultAllowance),
    })
    .onConflictDoNothing()
    .returning({ id: members.id })
  if (stored) return stored.id

  const existing = await findMember(tx, { ownerId, integrationId, consumerId })
  if (!existing) throw refusedId('member_exists') // deleted in this very moment: the caller may try again
  const { member: row } = existing
  const given = [displayName, metadata, status, allowance]
  const present = [row.displayName, row.metadata, row.status, row.policySource === 'member' ? policyOf(row) : null]
  if (!isDeepStrictEqual(given, present)) throw refusedId('member_exists')
  return undefined
}

/** Forms show it where the consumer was named. */
const refusedId = (code: 'invalid_consumer_id' | 'member_exists'): ServiceError =>
  new ServiceError(code, { fields: [{ path: '/consumerId', code, error: ERRORS[code].message }] })
