import { createHash } from 'node:crypto'
import type { CredentialsKey } from '@bureau/framework'

/** Scope of the secrets that are tokens of tool servers. */
export const CREDENTIALS_SCOPE = 'oauth'

/** Longer names do not fit into an index; the longest consumer id, 256 characters of three bytes, does. */
const MAX_PART_LENGTH = 2_400

type Consumer = { readonly ownerId: string; readonly integrationId: string; readonly consumerId: string | null }

/** Under whose name tokens of tool servers are kept: the consumer of an integration, otherwise the owner. */
export function signInUserOf({ ownerId, integrationId, consumerId }: Consumer): string {
  return consumerId === null ? ownerId : `${integrationId}/${consumerId}`
}

/**
 * The name of a secret, different for different users and servers.
 *
 * @throws Error the user is blank or not well-formed: two such ids could not be told apart.
 */
export function credentialName({ userId, server }: CredentialsKey): string {
  return credentialPrefix(userId) + partOf(server)
}

/** How the names of all secrets of a user begin. */
export function credentialPrefix(userId: string): string {
  if (userId.trim() === '' || !userId.isWellFormed()) throw new Error('credentials are stored for named users only')
  return `${partOf(userId)}/`
}

/** How the names of all secrets of an integration's consumers begin. */
export function consumersPrefix(integrationId: string): string {
  return encodeURIComponent(`${integrationId}/`)
}

function partOf(text: string): string {
  const encoded = encodeURIComponent(text)
  if (encoded.length <= MAX_PART_LENGTH) return encoded
  // No encoded text has this beginning.
  return `%sha256:${createHash('sha256').update(text).digest('hex')}`
}
