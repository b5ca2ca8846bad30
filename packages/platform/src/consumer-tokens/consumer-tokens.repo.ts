import { ServiceError } from '@bureau/protocol'
import { and, asc, eq, gt, inArray, sql } from 'drizzle-orm'
import { isUsableKey } from '../api-keys/api-keys.repo.ts'
import { appendAudit } from '../audit/audit.repo.ts'
import { systemOperation, tenantOperation } from '../db/operation.ts'
import { type Page, type PageRequest, toPage } from '../db/page.ts'
import { apiKeys, consumerTokenCutoffs, integrations, owners } from '../db/schema.ts'
import { isIntegration, requireIntegration } from '../members/members.repo.ts'

type Consumer = { readonly ownerId: string; readonly integrationId: string; readonly consumerId: string }

/** Of all consumers of an integration. */
const EVERYBODY = ''

/** What a token depends on besides itself. Times are in milliseconds since the epoch. */
type TokenGround = { readonly allowedOrigins: readonly string[]; readonly notBeforeMs: number }

/**
 * What a verified token stands on: its integration, its owner, and the API key that has made it; undefined when one of them is
 * gone.
 *
 * Across owners because it decides who the caller is; `ownerId` comes from the signed token.
 */
export const findTokenGround = systemOperation(
  { source: import.meta.url, name: 'findTokenGround', lane: 'interactive', onlyReads: true },
  async (tx, args: Consumer & { readonly keyId: string }): Promise<TokenGround | undefined> => {
    const { ownerId, integrationId, consumerId, keyId } = args
    const [found] = await tx
      .select({ settings: integrations.settings })
      .from(integrations)
      .innerJoin(owners, and(eq(owners.id, integrations.ownerId), eq(owners.status, 'active')))
      .innerJoin(apiKeys, isUsableKey({ ownerId, keyId }))
      .where(isIntegration({ ownerId, integrationId }))
    if (!found) return undefined
    const cutoffs = await tx
      .select({ notBefore: consumerTokenCutoffs.notBefore })
      .from(consumerTokenCutoffs)
      .where(
        and(
          eq(consumerTokenCutoffs.integrationId, integrationId),
          inArray(consumerTokenCutoffs.consumerId, [EVERYBODY, consumerId]),
        ),
      )
    const times = cutoffs.map(({ notBefore }) => notBefore.getTime())
    return { allowedOrigins: found.settings.allowedOrigins ?? [], notBeforeMs: Math.max(0, ...times) }
  },
)

/**
 * The time at which a token is made: by the clock of the database, as that of revocations is, for those of the processes may differ.
 *
 * @throws ServiceError `integration_not_found`
 */
export const readIssueTime = tenantOperation(
  { source: import.meta.url, name: 'readIssueTime', lane: 'interactive', onlyReads: true },
  async (tx, key: Omit<Consumer, 'consumerId'>): Promise<Date> => {
    const now = sql<Date>`now()::timestamptz(3)`.mapWith(consumerTokenCutoffs.notBefore)
    const [found] = await tx.select({ now }).from(integrations).where(isIntegration(key))
    if (!found) throw new ServiceError('integration_not_found')
    return found.now
  },
)

/** `consumerId` is null for all consumers of the integration. */
export type Revocation = {
  readonly integrationId: string
  readonly consumerId: string | null
  readonly notBefore: Date
}

/** Refuses all tokens that were made until now. @returns Since when they are. @throws ServiceError `integration_not_found` */
export const revokeConsumerTokens = tenantOperation(
  { source: import.meta.url, name: 'revokeConsumerTokens', lane: 'interactive' },
  async (tx, args: Omit<Revocation, 'notBefore'> & { ownerId: string; actor: string }): Promise<Date> => {
    const { ownerId, integrationId, consumerId, actor } = args
    await requireIntegration(tx, ownerId, integrationId)
    const [cutoff] = await tx
      .insert(consumerTokenCutoffs)
      .values({ ownerId, integrationId, consumerId: consumerId ?? EVERYBODY, notBefore: sql`now()` })
      .onConflictDoUpdate({
        target: [consumerTokenCutoffs.integrationId, consumerTokenCutoffs.consumerId],
        set: { notBefore: sql`greatest(${consumerTokenCutoffs.notBefore}, excluded.not_before)` },
      })
      .returning()
    if (!cutoff) throw new Error('the revocation was not stored')
    const details = { consumerId }
    await appendAudit(tx, ownerId, { actor, action: 'consumer_tokens.revoked', target: integrationId, details })
    return cutoff.notBefore
  },
)

/** The revocations of an integration, by consumer; that of all consumers is the first. */
export const listTokenRevocations = tenantOperation(
  { source: import.meta.url, name: 'listTokenRevocations', lane: 'interactive', onlyReads: true },
  async (tx, args: PageRequest & Omit<Consumer, 'consumerId'>): Promise<Page<Revocation>> => {
    const { ownerId, integrationId, limit, after } = args
    const rows = await tx
      .select()
      .from(consumerTokenCutoffs)
      .where(
        and(
          eq(consumerTokenCutoffs.ownerId, ownerId),
          eq(consumerTokenCutoffs.integrationId, integrationId),
          after ? gt(consumerTokenCutoffs.consumerId, after[1]) : undefined,
        ),
      )
      .orderBy(asc(consumerTokenCutoffs.consumerId))
      .limit(limit + 1)
    const view = (row: (typeof rows)[number]): Revocation => ({ ...row, consumerId: row.consumerId || null })
    return toPage(rows, limit, view, ({ consumerId }) => ['', consumerId])
  },
)

/** The origins of all integrations: for preflights, which do not say whose page asks. */
export const listAllowedOrigins = systemOperation(
  { source: import.meta.url, name: 'listAllowedOrigins', lane: 'interactive', onlyReads: true },
  async (tx): Promise<string[]> => {
    const origins = sql`SELECT DISTINCT jsonb_array_elements_text(settings->'allowedOrigins') AS origin
      FROM integrations WHERE deleted_at IS NULL AND jsonb_array_length(settings->'allowedOrigins') > 0`
    const { rows } = await tx.execute(origins)
    return rows.map((row) => String(row['origin']))
  },
)
