import { ServiceError } from '@bureau/protocol'
import { and, eq, inArray, isNull, sql } from 'drizzle-orm'
import { appendAudit } from '../audit/audit.repo.ts'
import { systemOperation, tenantOperation } from '../db/operation.ts'
import { apiKeys, consumerTokenCutoffs, integrations, owners } from '../db/schema.ts'

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
  { source: import.meta.url, name: 'findTokenGround', lane: 'interactive' },
  async (tx, args: Consumer & { readonly keyId: string }): Promise<TokenGround | undefined> => {
    const { ownerId, integrationId, consumerId, keyId } = args
    const [found] = await tx
      .select({ settings: integrations.settings })
      .from(integrations)
      .innerJoin(owners, and(eq(owners.id, integrations.ownerId), eq(owners.status, 'active')))
      .innerJoin(
        apiKeys,
        and(
          eq(apiKeys.id, keyId),
          eq(apiKeys.ownerId, ownerId),
          isNull(apiKeys.revokedAt),
          sql`(${apiKeys.expiresAt} IS NULL OR ${apiKeys.expiresAt} > now())`,
        ),
      )
      .where(and(eq(integrations.id, integrationId), eq(integrations.ownerId, ownerId), isNull(integrations.deletedAt)))
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

type Revoke = { readonly ownerId: string; readonly integrationId: string; readonly consumerId: string | null }

/** Refuses all tokens that were made before a time. A later time stays. @throws ServiceError `integration_not_found` */
export const revokeConsumerTokens = tenantOperation(
  { source: import.meta.url, name: 'revokeConsumerTokens', lane: 'interactive' },
  async (tx, args: Revoke & { readonly actor: string; readonly notBefore: Date }): Promise<void> => {
    const { ownerId, integrationId, consumerId, actor, notBefore } = args
    const [integration] = await tx
      .select({ id: integrations.id })
      .from(integrations)
      .where(and(eq(integrations.id, integrationId), eq(integrations.ownerId, ownerId), isNull(integrations.deletedAt)))
    if (!integration) throw new ServiceError('integration_not_found')
    await tx
      .insert(consumerTokenCutoffs)
      .values({ ownerId, integrationId, consumerId: consumerId ?? EVERYBODY, notBefore })
      .onConflictDoUpdate({
        target: [consumerTokenCutoffs.integrationId, consumerTokenCutoffs.consumerId],
        set: { notBefore: sql`greatest(${consumerTokenCutoffs.notBefore}, excluded.not_before)` },
      })
    const details = { consumerId }
    await appendAudit(tx, ownerId, { actor, action: 'consumer_tokens.revoked', target: integrationId, details })
  },
)

/** The origins of all integrations: for preflights, which do not say whose page asks. */
export const listAllowedOrigins = systemOperation(
  { source: import.meta.url, name: 'listAllowedOrigins', lane: 'interactive' },
  async (tx): Promise<string[]> => {
    const origins = sql`SELECT DISTINCT jsonb_array_elements_text(settings->'allowedOrigins') AS origin
      FROM integrations WHERE deleted_at IS NULL AND settings ? 'allowedOrigins'`
    const { rows } = await tx.execute(origins)
    return rows.map((row) => String(row['origin']))
  },
)
