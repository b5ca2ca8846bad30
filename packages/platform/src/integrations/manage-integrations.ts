import { type AllowancePolicy, ServiceError } from '@bureau/protocol'
import { and, eq, isNull, sql } from 'drizzle-orm'
import { isDeepStrictEqual } from 'node:util'
import { appendAudit } from '../audit/audit.repo.ts'
import type { IntegrationSettings } from '../db/column-types.ts'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { integrations } from '../db/schema.ts'
import { newId } from '../ids.ts'
import { DEFAULT_ALLOWANCE } from '../members/allowance-policy.ts'
import { changeDefaultPolicy } from '../members/change-policy.ts'
import { requireTimeZone } from '../members/members.repo.ts'
import { consumersPrefix, CREDENTIALS_SCOPE } from '../security/credential-name.ts'
import { markCancelled } from '../run-records/request-cancel.ts'
import { deleteSecretsBelow } from '../security/secrets.ts'
import {
  DEFAULT_SETTINGS,
  getIntegrationView,
  insertIntegration,
  type IntegrationKey,
  type StoredIntegration,
  listActiveRuns,
  lockIntegration,
  updateIntegrationRow,
} from './integrations.repo.ts'

/** What an owner may set. Names are those of the API. */
export type IntegrationChanges = Partial<Omit<IntegrationSettings, 'disabled'>> & {
  readonly name?: string
  readonly agencyId?: string
  readonly defaultAgent?: string
  readonly textOnlyMode?: boolean
  readonly memberAllowancesEnabled?: boolean
  readonly defaultAllowance?: AllowancePolicy
  readonly status?: 'active' | 'disabled'
}

export type NewIntegration = IntegrationChanges & {
  readonly name: string
  readonly agencyId: string
  readonly defaultAgent: string
}

type OwnersIntegration = { readonly ownerId: string; readonly actor: string; readonly integration: NewIntegration }

/** Protocols show all integrations of an owner at once. */
export const MAX_INTEGRATIONS = 1_000
/** Of integrations that are created at once, one after the other is counted. */
const LOCK = 727_005

/** @throws ServiceError `invalid_allowance` (time zone); `invalid_request`: the owner has too many. */
export const createIntegration = tenantOperation(
  { source: import.meta.url, name: 'createIntegration', lane: 'interactive' },
  async (tx, args: OwnersIntegration): Promise<StoredIntegration> => {
    const { ownerId } = args
    await tx.execute(sql`SELECT pg_advisory_xact_lock(${LOCK}, hashtext(${ownerId}))`)
    const isOwners = and(eq(integrations.ownerId, ownerId), isNull(integrations.deletedAt))
    if ((await tx.$count(integrations, isOwners)) >= MAX_INTEGRATIONS) {
      const message = `An owner has at most ${MAX_INTEGRATIONS} integrations. Delete one of them first.`
      throw new ServiceError('invalid_request', { message })
    }
    return addIntegration(tx, args)
  },
)

/** Creates one however many there are: what the deployment publishes is not refused. */
export async function addIntegration(
  tx: Tx,
  { ownerId, actor, integration }: OwnersIntegration,
): Promise<StoredIntegration> {
  const integrationId = newId('int')
  const { name, agencyId, defaultAgent } = integration
  await insertIntegration(tx, {
    id: integrationId,
    ownerId,
    name,
    agencyId,
    defaultAgent,
    textOnly: integration.textOnlyMode ?? false,
    allowancesEnabled: integration.memberAllowancesEnabled ?? false,
    defaultAllowance: integration.defaultAllowance ?? DEFAULT_ALLOWANCE,
    settings: mergeSettings(DEFAULT_SETTINGS, integration),
  })
  await appendAudit(tx, ownerId, { actor, action: 'integration.created', target: integrationId })
  return getIntegrationView(tx, { ownerId, integrationId })
}

/**
 * Changes an integration for the next admission; running responses keep the settings they were admitted with.
 *
 * A new default allowance reaches every member without a policy of its own, together with the change.
 *
 * @throws ServiceError `integration_not_found`, `version_conflict`, `invalid_allowance` (time zone)
 */
export const updateIntegration = tenantOperation(
  { source: import.meta.url, name: 'updateIntegration', lane: 'interactive' },
  async (
    tx,
    args: IntegrationKey & { actor: string; ifVersion?: number; changes: IntegrationChanges },
  ): Promise<StoredIntegration> => {
    const { ownerId, integrationId, actor, changes } = args
    const row = await lockIntegration(tx, args)
    await updateIntegrationRow(tx, args, {
      name: changes.name ?? row.name,
      agencyId: changes.agencyId ?? row.agencyId,
      defaultAgent: changes.defaultAgent ?? row.defaultAgent,
      textOnly: changes.textOnlyMode ?? row.textOnly,
      allowancesEnabled: changes.memberAllowancesEnabled ?? row.allowancesEnabled,
      defaultAllowance: changes.defaultAllowance ?? row.defaultAllowance,
      settings: mergeSettings(row.settings, changes),
    })
    if (changes.defaultAllowance && !isDeepStrictEqual(changes.defaultAllowance, row.defaultAllowance)) {
      await requireTimeZone(tx, changes.defaultAllowance.timeZone)
      await changeDefaultPolicy(tx, ownerId, integrationId, changes.defaultAllowance)
    }
    const details = { changed: Object.keys(changes) }
    await appendAudit(tx, ownerId, { actor, action: 'integration.updated', target: integrationId, details })
    return getIntegrationView(tx, args)
  },
)

/**
 * Takes an integration away, with the tokens of tool servers that its consumers have. With `cancelRuns`, its active runs are cancelled; the answer lists them, so that the
 * processes that execute them can be woken.
 *
 * @throws ServiceError `integration_not_found`, `version_conflict`, `runs_active` (without `cancelRuns`)
 */
export const deleteIntegration = tenantOperation(
  { source: import.meta.url, name: 'deleteIntegration', lane: 'interactive' },
  async (
    tx,
    args: IntegrationKey & { actor: string; ifVersion?: number; cancelRuns: boolean },
  ): Promise<{ cancelling: { runId: string; bootId: string }[] }> => {
    const { ownerId, integrationId, actor, cancelRuns } = args
    await lockIntegration(tx, args)
    const cancelling = await listActiveRuns(tx, args)
    if (cancelling.length > 0 && !cancelRuns) throw new ServiceError('runs_active')
    for (const { runId } of cancelling) await markCancelled(tx, { ownerId, runId, mode: 'immediate' })
    await updateIntegrationRow(tx, args, { deletedAt: new Date() })
    await deleteSecretsBelow(tx, { ownerId, scope: CREDENTIALS_SCOPE, prefix: consumersPrefix(integrationId) })
    await appendAudit(tx, ownerId, { actor, action: 'integration.deleted', target: integrationId })
    return { cancelling }
  },
)

function mergeSettings(settings: IntegrationSettings, { status, ...changes }: IntegrationChanges): IntegrationSettings {
  const given = Object.entries(changes).filter(([name, value]) => name in DEFAULT_SETTINGS && value !== undefined)
  const disabled = status === undefined ? settings.disabled : status === 'disabled'
  return { ...DEFAULT_SETTINGS, ...settings, ...Object.fromEntries(given), disabled }
}
