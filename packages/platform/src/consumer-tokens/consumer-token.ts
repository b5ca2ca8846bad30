import { type ApiKeyScope, ConsumerScope } from '@bureau/protocol'
import { z } from 'zod'
import { signToken, type TokenKind, verifyToken } from '../api-keys/signed-token.ts'
import type { SigningKeys } from '../api-keys/signing-keys.ts'
import { newId } from '../ids.ts'

/** What a token says: who may do what where, and whose API key has made it. */
export type ConsumerClaims = {
  readonly ownerId: string
  readonly keyId: string
  readonly integrationId: string
  readonly consumerId: string
  readonly scopes: readonly ConsumerScope[]
  readonly issuedAt: Date
  readonly expiresAt: Date
}

/** What each scope of a token is among those of API keys: what a token may do, and a key must be allowed to give it away. */
export const API_SCOPES = {
  chat: 'runs',
  read: 'chats:read',
  upload: 'files:write',
  approve: 'runs:approve',
} as const satisfies Record<ConsumerScope, ApiKeyScope>

/** Known to secret scanners, and told apart from API keys by it. */
export const TOKEN_PREFIX = 'bct_'

/** Signed with the keys of the API keys, under a type and for an audience of its own. */
const KIND: TokenKind = { type: 'consumer+jwt', audience: 'platform-consumer' }

/** Times are in seconds, with milliseconds behind the point, so that a revocation meets exactly what was made before it. */
const Time = z
  .number()
  .positive()
  .transform((seconds) => new Date(Math.round(seconds * 1_000)))
const Claims = z.strictObject({
  iss: z.string(),
  aud: z.string(),
  sub: z.string().min(1),
  own: z.string(),
  key: z.string(),
  int: z.string(),
  scope: z
    .string()
    .transform((text) => text.split(' '))
    .pipe(z.array(ConsumerScope)),
  iat: Time,
  exp: Time,
  jti: z.string(),
})

export async function signConsumerToken(keys: SigningKeys, issuer: string, claims: ConsumerClaims): Promise<string> {
  const { ownerId, keyId, integrationId, consumerId, scopes, issuedAt, expiresAt } = claims
  const who = { own: ownerId, key: keyId, int: integrationId, sub: consumerId, scope: scopes.join(' ') }
  const times = { iat: issuedAt.getTime() / 1_000, exp: expiresAt.getTime() / 1_000 }
  return TOKEN_PREFIX + (await signToken(keys, KIND, { ...who, ...times, iss: issuer, jti: newId('ctk') }))
}

/** Undefined for every token that is not ours or is not valid now. */
export async function verifyConsumerToken(
  keys: SigningKeys,
  issuer: string,
  token: string,
  now: Date,
): Promise<ConsumerClaims | undefined> {
  if (!token.startsWith(TOKEN_PREFIX)) return undefined
  const jws = token.slice(TOKEN_PREFIX.length)
  const { data } = Claims.safeParse(await verifyToken(keys, KIND, { token: jws, issuer, now }))
  if (!data || data.exp <= now) return undefined
  const { own: ownerId, key: keyId, int: integrationId, sub: consumerId, scope: scopes, iat, exp } = data
  return { ownerId, keyId, integrationId, consumerId, scopes, issuedAt: iat, expiresAt: exp }
}
