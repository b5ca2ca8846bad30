import { type Integration, ServiceError } from '@bureau/protocol'
import { and, desc, eq, inArray, isNull, sql } from 'drizzle-orm'
import type { IntegrationSettings } from '../db/column-types.ts'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { olderThan, type Page, type PageRequest, toPage } from '../db/page.ts'
import { integrations, mountUsage, runs } from '../db/schema.ts'
import { isIntegration, requireTimeZone } from '../members/members.repo.ts'

export type IntegrationRow = typeof integrations.$inferSelect

/** An integration as its owner sees it, without what only the deployment knows. */
export type StoredIntegration = Omit<Integration, 'agencyDeployed' | 'agents'>

export type IntegrationKey = { readonly ownerId: string; readonly integrationId: string }
type Joined = { readonly integration: IntegrationRow; readonly storage: typeof mountUsage.$inferSelect | null }

/** Of a new integration; and what older records do not have. */
export const DEFAULT_SETTINGS: Required<IntegrationSettings> = {
  description: null,
  onDisconnect: 'continue',
  whenRunnerLost: 'resume',
  chatBinding: 'none',
  membersRequired: false,
  allowedOrigins: [],
  consumerApprovals: [],
  runTimeoutSeconds: 1_800,
  maxTurns: 50,
  historyTokens: 100_000,
  retentionDays: null,
  disabled: false,
  storageQuotaBytes: 5 * 1024 ** 3,
}

const ACTIVE_STATES = ['reserved', 'running', 'waiting'] as const

/**
 * The integration's row, locked against other changes of it. Admissions are not held up.
 *
 * @throws ServiceError `integration_not_found`; `version_conflict` when it has not the version that is asked for
 */
export async function lockIntegration(
  tx: Tx,
  { ifVersion, ...key }: IntegrationKey & { readonly ifVersion?: number },
): Promise<IntegrationRow> {
  const [row] = await tx.select().from(integrations).where(isIntegration(key)).for('no key update')
  if (!row) throw new ServiceError('integration_not_found')
  if (ifVersion !== undefined && ifVersion !== row.version) throw new ServiceError('version_conflict')
  return row
}

export async function insertIntegration(tx: Tx, row: typeof integrations.$inferInsert): Promise<void> {
  if (row.defaultAllowance.timeZone !== 'UTC') await requireTimeZone(tx, row.defaultAllowance.timeZone)
  await tx.insert(integrations).values(row)
}

export async function updateIntegrationRow(
  tx: Tx,
  key: IntegrationKey,
  columns: Partial<IntegrationRow>,
): Promise<void> {
  await tx
    .update(integrations)
    .set({ ...columns, version: sql`${integrations.version} + 1`, updatedAt: sql`now()` })
    .where(and(eq(integrations.id, key.integrationId), eq(integrations.ownerId, key.ownerId)))
}

export async function listActiveRuns(tx: Tx, { ownerId, integrationId }: IntegrationKey) {
  return tx
    .select({ runId: runs.id, bootId: runs.bootId })
    .from(runs)
    .where(
      and(eq(runs.integrationId, integrationId), eq(runs.ownerId, ownerId), inArray(runs.state, [...ACTIVE_STATES])),
    )
    .orderBy(runs.id)
}

/** @throws ServiceError `integration_not_found`, the same for foreign and deleted ones. */
export async function getIntegrationView(tx: Tx, key: IntegrationKey): Promise<StoredIntegration> {
  const [found] = await selectWithStorage(tx).where(isIntegration(key))
  if (!found) throw new ServiceError('integration_not_found')
  return integrationView(found)
}

/** @throws ServiceError `integration_not_found` */
export const getIntegration = tenantOperation(
  { source: import.meta.url, name: 'getIntegration', lane: 'interactive', onlyReads: true },
  (tx, key: IntegrationKey): Promise<StoredIntegration> => getIntegrationView(tx, key),
)

/** Newest first. `only` keeps the integrations that a restricted API key may see, `agencyId` those of one agency. */
export const listIntegrations = tenantOperation(
  { source: import.meta.url, name: 'listIntegrations', lane: 'interactive', onlyReads: true },
  async (
    tx,
    args: PageRequest & { ownerId: string; only?: readonly string[] | null; agencyId?: string },
  ): Promise<Page<StoredIntegration>> => {
    const { ownerId, only, agencyId, limit, after } = args
    const rows = await selectWithStorage(tx)
      .where(
        and(
          eq(integrations.ownerId, ownerId),
          isNull(integrations.deletedAt),
          only ? inArray(integrations.id, [...only]) : undefined,
          agencyId === undefined ? undefined : eq(integrations.agencyId, agencyId),
          olderThan(integrations.createdAt, integrations.id, after),
        ),
      )
      .orderBy(desc(integrations.createdAt), desc(integrations.id))
      .limit(limit + 1)
    return toPage(rows, limit, integrationView, ({ integration }) => [
      integration.createdAt.toISOString(),
      integration.id,
    ])
  },
)

const selectWithStorage = (tx: Tx) =>
  tx
    .select({ integration: integrations, storage: mountUsage })
    .from(integrations)
    .leftJoin(mountUsage, eq(mountUsage.integrationId, integrations.id))

function integrationView({ integration, storage }: Joined): StoredIntegration {
  const { disabled, storageQuotaBytes, ...settings } = { ...DEFAULT_SETTINGS, ...integration.settings }
  return {
    object: 'integration',
    apiIntegrationId: integration.id,
    name: integration.name,
    agencyId: integration.agencyId,
    defaultAgent: integration.defaultAgent,
    textOnlyMode: integration.textOnly,
    memberAllowancesEnabled: integration.allowancesEnabled,
    defaultAllowance: integration.defaultAllowance,
    ...settings,
    allowedOrigins: [...settings.allowedOrigins],
    consumerApprovals: [...settings.consumerApprovals],
    storage: {
      quotaBytes: storageQuotaBytes,
      usedBytes: storage?.usedBytes ?? 0,
      fileCount: storage?.fileCount ?? 0,
    },
    status: disabled ? 'disabled' : 'active',
    version: integration.version,
    createdAt: integration.createdAt.toISOString(),
    updatedAt: integration.updatedAt.toISOString(),
  }
}
