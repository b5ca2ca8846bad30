import type { ConsumerToken, ConsumerTokenCreate, ConsumerTokenRevoke, ConsumerTokensRevoked } from '@bureau/protocol'
import type { z } from 'zod'
import { type Caller, requireScope } from '../caller.ts'
import type { Platform } from '../context.ts'
import type { Page, PageRequest } from '../db/page.ts'
import { readIntegration } from '../integrations/describe-integrations.ts'
import { API_SCOPES, signConsumerToken } from './consumer-token.ts'
import { listTokenRevocations, readIssueTime, type Revocation, revokeConsumerTokens } from './consumer-tokens.repo.ts'

/**
 * Makes a token. It never outlives the API key that makes it.
 *
 * @throws ServiceError `insufficient_scope`, `integration_not_found`
 */
export async function issueConsumerToken(
  platform: Platform,
  caller: Caller,
  { apiIntegrationId: integrationId, consumerId, scopes, expiresInSeconds }: z.output<typeof ConsumerTokenCreate>,
): Promise<ConsumerToken> {
  requireScope(caller, 'consumer_tokens', integrationId)
  for (const scope of scopes) requireScope(caller, API_SCOPES[scope])
  const { db, signingKeys, issuer } = platform.store.keyIssuer
  const { ownerId, keyId } = caller
  const issuedAt = await db.run(readIssueTime, { ownerId, integrationId })
  const endMs = issuedAt.getTime() + expiresInSeconds * 1_000
  const expiresAt = new Date(Math.min(endMs, caller.expiresAt?.getTime() ?? endMs))
  const claims = { ownerId, keyId, integrationId, consumerId, scopes, issuedAt, expiresAt }
  return {
    object: 'consumer_token',
    token: await signConsumerToken(signingKeys, issuer, claims),
    apiIntegrationId: integrationId,
    consumerId,
    scopes,
    createdAt: issuedAt.toISOString(),
    expiresAt: expiresAt.toISOString(),
  }
}

/**
 * Refuses the tokens that were made until now, of one consumer or of all of an integration.
 *
 * @throws ServiceError `insufficient_scope`, `integration_not_found`
 */
export async function endConsumerTokens(
  platform: Platform,
  caller: Caller,
  { apiIntegrationId: integrationId, ...body }: z.output<typeof ConsumerTokenRevoke>,
): Promise<ConsumerTokensRevoked> {
  requireScope(caller, 'consumer_tokens', integrationId)
  const { ownerId, keyId: actor } = caller
  const { consumerId = null } = body
  const revocation = { ownerId, actor, integrationId, consumerId }
  const notBefore = await platform.store.db.run(revokeConsumerTokens, revocation)
  platform.store.consumers.forget()
  return revokedView({ integrationId, consumerId, notBefore })
}

/** Whose tokens were revoked when; each consumer once, with the latest time. @throws ServiceError `integration_not_found` */
export async function readRevocations(
  platform: Platform,
  caller: Caller,
  { integrationId, ...page }: PageRequest & { readonly integrationId: string },
): Promise<Page<ConsumerTokensRevoked>> {
  await readIntegration(platform, caller, integrationId)
  const { ownerId } = caller
  const { items, next } = await platform.store.db.run(listTokenRevocations, { ownerId, integrationId, ...page })
  return { items: items.map(revokedView), next }
}

const revokedView = ({ integrationId, consumerId, notBefore }: Revocation): ConsumerTokensRevoked => ({
  object: 'consumer_tokens_revoked',
  apiIntegrationId: integrationId,
  consumerId,
  notBefore: notBefore.toISOString(),
})
