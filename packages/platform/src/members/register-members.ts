import { type AllowancePolicy, type ErrorCode, type Member, ServiceError } from '@bureau/protocol'
import { isDeepStrictEqual } from 'node:util'
import { appendAudit } from '../audit/audit.repo.ts'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { integrations, members } from '../db/schema.ts'
import { newId } from '../ids.ts'
import { refusedField } from '../refused-field.ts'
import { policyColumns, policyOf } from './allowance-policy.ts'
import { findMember, getMemberView, holdIntegration, requireTimeZone } from './members.repo.ts'

export type NewMember = {
  readonly consumerId: string
  readonly displayName?: string | null
  readonly metadata?: Readonly<Record<string, string>>
  readonly status?: 'active' | 'inactive'
  /** Absent or null: the integration's default. */
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
    await requireValid(tx, member)
    const created = await insert(tx, integration, [member])
    if (created.size === 0) await requireEqual(tx, args, member)
    await recordCreated(tx, args, created)
    const view = await getMemberView(tx, { ...args, consumerId: member.consumerId })
    return { created: created.size > 0, member: view }
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
    const refusals = new Map<NewMember, ErrorCode | undefined>()
    for (const member of members) refusals.set(member, await refusalOf(requireValid(tx, member)))
    const valid = members.filter((member) => refusals.get(member) === undefined)
    const created = await insert(tx, integration, valid)
    await recordCreated(tx, args, created)
    const results: RegisteredMember[] = []
    for (const member of members) {
      const { consumerId } = member
      const refusal = refusals.get(member)
      // Of several of one consumer, the first is the new one.
      const isNew = !refusal && created.delete(consumerId)
      const code = isNew ? undefined : (refusal ?? (await refusalOf(requireEqual(tx, args, member))))
      results.push(code ? { consumerId, status: 'error', code } : { consumerId, status: isNew ? 'created' : 'exists' })
    }
    return results
  },
)

/** The code of a refusal; undefined: there is none. */
async function refusalOf(work: Promise<void>): Promise<ErrorCode | undefined> {
  try {
    await work
    return undefined
  } catch (error) {
    if (error instanceof ServiceError) return error.code
    throw error
  }
}

function byConsumer({ consumerId: a }: NewMember, { consumerId: b }: NewMember): number {
  return a < b ? -1 : Number(a > b)
}

function recordCreated(tx: Tx, { ownerId, actor }: Registration, created: ReadonlyMap<string, string>): Promise<void> {
  return appendAudit(
    tx,
    ownerId,
    ...[...created.values()].map((target) => ({ actor, action: 'member.created', target })),
  )
}

async function requireValid(tx: Tx, { consumerId, allowance }: NewMember): Promise<void> {
  if (!/^[A-Za-z0-9._:@+=~|-]{1,256}$/.test(consumerId)) throw refusedField('invalid_consumer_id', 'consumerId')
  if (allowance && allowance.timeZone !== 'UTC') await requireTimeZone(tx, allowance.timeZone)
}

/** The ids of the members that were not there already, by their consumers. */
async function insert(tx: Tx, integration: Integration, list: readonly NewMember[]): Promise<Map<string, string>> {
  if (list.length === 0) return new Map()
  const { ownerId, id: integrationId, defaultAllowance } = integration
  // In one order: otherwise two lists with the same consumers would wait for each other. At once: one of them waits for the other.
  const rows = list.toSorted(byConsumer).map((member) => {
    const { consumerId, allowance } = member
    return {
      ...given(member),
      id: newId('mem'),
      ownerId,
      integrationId,
      consumerId,
      policySource: allowance ? ('member' as const) : ('integration_default' as const),
      ...policyColumns(allowance ?? defaultAllowance),
    }
  })
  const { id, consumerId } = members
  const created = await tx.insert(members).values(rows).onConflictDoNothing().returning({ id, consumerId })
  return new Map(created.map((row) => [row.consumerId, row.id]))
}

/** @throws ServiceError `member_exists`: the member that is there already has other values. */
async function requireEqual(tx: Tx, { ownerId, integrationId }: Registration, member: NewMember): Promise<void> {
  const existing = await findMember(tx, { ownerId, integrationId, consumerId: member.consumerId })
  if (!existing) throw refusedField('member_exists', 'consumerId') // deleted in this very moment: the caller may try again
  const { displayName, metadata, status, policySource } = existing.member
  const allowance = policySource === 'member' ? policyOf(existing.member) : null
  const isEqual = isDeepStrictEqual(
    [given(member), member.allowance ?? null],
    [{ displayName, metadata, status }, allowance],
  )
  if (!isEqual) throw refusedField('member_exists', 'consumerId')
}

const given = ({ displayName = null, metadata = {}, status = 'active' }: NewMember) => ({
  displayName,
  metadata,
  status,
})
