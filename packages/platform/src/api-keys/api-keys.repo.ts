import { type ApiKey, ServiceError } from '@bureau/protocol'
import { and, desc, eq, inArray, isNull, sql } from 'drizzle-orm'
import { appendAudit } from '../audit/audit.repo.ts'
import { systemOperation, tenantOperation, type Tx } from '../db/operation.ts'
import { olderThan, type Page, type PageRequest, toPage } from '../db/page.ts'
import { apiKeys, integrations, owners } from '../db/schema.ts'
import { appendOutbox } from '../outbox/outbox.repo.ts'

export type ApiKeyRow = typeof apiKeys.$inferSelect

type Keyed = { readonly ownerId: string; readonly keyId: string }

/**
 * What the API key of the caller is restricted to; null: nothing. A restricted key manages the keys that reach no further
 * than it does; others do not exist for it.
 */
type Reach = { readonly integrationIds: readonly string[] | null }

const isWithin = ({ integrationIds }: Reach) =>
  integrationIds ? sql`${apiKeys.integrationIds} <@ ${sql.param(integrationIds, apiKeys.integrationIds)}` : undefined

/** @throws ServiceError `integration_not_found`: the key is to be restricted to an integration that is not there. */
export const insertApiKey = tenantOperation(
  { source: import.meta.url, name: 'insertApiKey', lane: 'interactive' },
  async (tx, args: { ownerId: string; actor: string; key: typeof apiKeys.$inferInsert }): Promise<ApiKey> => {
    const { ownerId, actor, key } = args
    await requireIntegrations(tx, ownerId, key.integrationIds ?? [])
    const [row] = await tx
      .insert(apiKeys)
      .values({ ...key, ownerId })
      .returning()
    if (!row) throw new Error('the API key was not stored')
    await appendAudit(tx, ownerId, {
      actor,
      action: 'api_key.created',
      target: row.id,
      details: { scopes: row.scopes },
    })
    return apiKeyView(row)
  },
)

/**
 * Stores a successor and lets the old key expire after the overlap, never later than it would have.
 *
 * @throws ServiceError `api_key_not_found`, also when it is revoked or has expired.
 */
export const replaceApiKey = tenantOperation(
  { source: import.meta.url, name: 'replaceApiKey', lane: 'interactive' },
  async (
    tx,
    args: Keyed & { actor: string; overlapSeconds: number; successor: typeof apiKeys.$inferInsert },
  ): Promise<ApiKey> => {
    const { ownerId, keyId, actor, overlapSeconds, successor } = args
    const end = sql`least(${apiKeys.expiresAt}, now() + make_interval(secs => ${overlapSeconds}))`
    const replaced = await tx.update(apiKeys).set({ expiresAt: end }).where(isUsableKey({ ownerId, keyId })).returning()
    if (replaced.length === 0) throw new ServiceError('api_key_not_found')
    const [row] = await tx
      .insert(apiKeys)
      .values({ ...successor, ownerId })
      .returning()
    if (!row) throw new Error('the API key was not stored')
    await appendAudit(tx, ownerId, { actor, action: 'api_key.rotated', target: keyId, details: { successor: row.id } })
    return apiKeyView(row)
  },
)

/** Ends a key for good. Repeating it changes nothing. @throws ServiceError `api_key_not_found` */
export const revokeApiKey = tenantOperation(
  { source: import.meta.url, name: 'revokeApiKey', lane: 'interactive' },
  async (tx, args: Keyed & Reach & { actor: string }): Promise<ApiKey> => {
    const { ownerId, keyId, actor } = args
    const revoked = await tx
      .update(apiKeys)
      .set({ revokedAt: sql`now()` })
      .where(and(isManaged(args), isNull(apiKeys.revokedAt)))
      .returning({ id: apiKeys.id })
    const view = await findView(tx, args)
    if (revoked.length > 0) {
      await appendAudit(tx, ownerId, { actor, action: 'api_key.revoked', target: keyId })
      await appendOutbox(tx, ownerId, 'api_key.revoked', view)
    }
    return view
  },
)

/** @throws ServiceError `api_key_not_found` */
export const getApiKey = tenantOperation(
  { source: import.meta.url, name: 'getApiKey', lane: 'interactive', onlyReads: true },
  (tx, key: Keyed & Reach): Promise<ApiKey> => findView(tx, key),
)

/** Newest first. */
export const listApiKeys = tenantOperation(
  { source: import.meta.url, name: 'listApiKeys', lane: 'interactive', onlyReads: true },
  async (tx, args: PageRequest & Reach & { ownerId: string }): Promise<Page<ApiKey>> => {
    const { ownerId, limit, after } = args
    const rows = await tx
      .select()
      .from(apiKeys)
      .where(and(eq(apiKeys.ownerId, ownerId), isWithin(args), olderThan(apiKeys.createdAt, apiKeys.id, after)))
      .orderBy(desc(apiKeys.createdAt), desc(apiKeys.id))
      .limit(limit + 1)
    return toPage(rows, limit, apiKeyView, (row) => [row.createdAt.toISOString(), row.id])
  },
)

/**
 * The usable key behind a verified token, if the stored hash is that of this very token. Notes its use once a minute.
 *
 * Across owners because it decides who the caller is; `ownerId` comes from the signed token.
 */
export const useApiKey = systemOperation(
  { source: import.meta.url, name: 'useApiKey', lane: 'interactive' },
  async (tx, { ownerId, keyId }: Keyed): Promise<ApiKeyRow | undefined> => {
    const [found] = await tx
      .select({ key: apiKeys })
      .from(apiKeys)
      .innerJoin(owners, and(eq(owners.id, apiKeys.ownerId), eq(owners.status, 'active')))
      .where(isUsableKey({ ownerId, keyId }))
    if (!found) return undefined
    await tx.execute(sql`UPDATE ${apiKeys} SET last_used_at = now() WHERE id = ${keyId}
      AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')`)
    return found.key
  },
)

/** Neither revoked nor over. */
export const isUsableKey = ({ ownerId, keyId }: Keyed) =>
  and(
    eq(apiKeys.ownerId, ownerId),
    eq(apiKeys.id, keyId),
    isNull(apiKeys.revokedAt),
    sql`(${apiKeys.expiresAt} IS NULL OR ${apiKeys.expiresAt} > now())`,
  )

const isManaged = (key: Keyed & Reach) =>
  and(eq(apiKeys.ownerId, key.ownerId), eq(apiKeys.id, key.keyId), isWithin(key))

async function findView(tx: Tx, key: Keyed & Reach): Promise<ApiKey> {
  const [row] = await tx.select().from(apiKeys).where(isManaged(key))
  if (!row) throw new ServiceError('api_key_not_found')
  return apiKeyView(row)
}

async function requireIntegrations(tx: Tx, ownerId: string, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  const known = await tx
    .select({ id: integrations.id })
    .from(integrations)
    .where(and(eq(integrations.ownerId, ownerId), inArray(integrations.id, [...ids]), isNull(integrations.deletedAt)))
  if (known.length < new Set(ids).size) throw new ServiceError('integration_not_found')
}

/** An API key as its owner sees it: never the token or its hash. */
function apiKeyView(row: ApiKeyRow): ApiKey {
  return {
    object: 'api_key',
    id: row.id,
    name: row.name,
    hint: row.hint,
    scopes: row.scopes,
    integrationIds: row.integrationIds,
    createdAt: row.createdAt.toISOString(),
    expiresAt: row.expiresAt?.toISOString() ?? null,
    lastUsedAt: row.lastUsedAt?.toISOString() ?? null,
    revokedAt: row.revokedAt?.toISOString() ?? null,
  }
}
