import { type ApiKeyScope, type ConsumerScope, ServiceError } from '@bureau/protocol'

/** Who asks: the owner behind an API key and what that key may do, or a consumer's page in the owner's name. */
export type Caller = {
  readonly ownerId: string
  readonly keyId: string
  readonly scopes: readonly string[]
  /** Null: every integration of the owner. */
  readonly integrationIds: readonly string[] | null
  /** When the key ends; null: never. */
  readonly expiresAt: Date | null
  /** The page of this consumer asks, with a consumer token: it sees what is the consumer's. Absent: an API key. */
  readonly consumerId?: string
  /** What that token allows. */
  readonly consumerScopes?: readonly ConsumerScope[]
}

/** What of the owner's the caller may see. */
export function reachOf({ ownerId, integrationIds, consumerId }: Caller) {
  return { ownerId, integrationIds, ...(consumerId !== undefined && { consumerId }) }
}

/**
 * Throws unless the key has the scope and, when an integration is named, may act on it.
 *
 * @throws ServiceError `insufficient_scope`
 */
export function requireScope(caller: Caller, scope: ApiKeyScope, integrationId?: string): void {
  if (!caller.scopes.includes('*') && !caller.scopes.includes(scope)) {
    const message = `This ${credentialOf(caller)} may not do that: it needs the scope ${scope}, and has ${caller.scopes.join(', ')}.`
    throw new ServiceError('insufficient_scope', { message })
  }
  if (integrationId && caller.integrationIds && !caller.integrationIds.includes(integrationId)) {
    const message = `This ${credentialOf(caller)} may not do that: it is for other integrations.`
    throw new ServiceError('insufficient_scope', { message })
  }
}

const credentialOf = ({ consumerId }: Caller): string => (consumerId === undefined ? 'API key' : 'consumer token')

/**
 * Throws when a new key could do something that the caller cannot.
 *
 * @throws ServiceError `insufficient_scope`
 */
export function requireGrantable(
  caller: Caller,
  scopes: readonly string[],
  integrationIds: readonly string[] | null,
): void {
  const everything = caller.scopes.includes('*')
  const ownScopes = everything || scopes.every((scope) => caller.scopes.includes(scope))
  const reach = caller.integrationIds
  const ownReach = !reach || (integrationIds !== null && integrationIds.every((id) => reach.includes(id)))
  if (!ownScopes || !ownReach) {
    const message = 'This API key may not do that: a key gives another only scopes and integrations that it has itself.'
    throw new ServiceError('insufficient_scope', { message })
  }
}
