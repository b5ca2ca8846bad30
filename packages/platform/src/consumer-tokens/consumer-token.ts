import { type ApiKeyScope, ConsumerScope } from '@bureau/protocol'
import { decodeProtectedHeader, jwtVerify, SignJWT } from 'jose'
import { z } from 'zod'
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

const TYPE = 'consumer+jwt'
const AUDIENCE = 'platform-consumer'
const LEEWAY_MS = 60_000
/** Ours have at most about 1,000 characters. */
const MAX_LENGTH = 2_048

/** Times are in seconds, with milliseconds behind the point, so that a revocation meets exactly what was made before it. */
const Claims = z.strictObject({
  iss: z.string(),
  aud: z.literal(AUDIENCE),
  sub: z.string().min(1),
  own: z.string(),
  key: z.string(),
  int: z.string(),
  scope: z.string().transform((text) => z.array(ConsumerScope).parse(text.split(' '))),
  iat: z.number().positive(),
  exp: z.number().positive(),
  jti: z.string(),
})

/** Signs with the keys of the API keys, under a type and for an audience of its own. */
export async function signConsumerToken(keys: SigningKeys, issuer: string, claims: ConsumerClaims): Promise<string> {
  const { kid, privateKey } = keys.signer
  const { ownerId, keyId, integrationId, consumerId, scopes, issuedAt, expiresAt } = claims
  const payload = { own: ownerId, key: keyId, int: integrationId, scope: scopes.join(' ') }
  const token = await new SignJWT({ ...payload, iat: issuedAt.getTime() / 1_000, exp: expiresAt.getTime() / 1_000 })
    .setProtectedHeader({ alg: 'EdDSA', typ: TYPE, kid })
    .setIssuer(issuer)
    .setAudience(AUDIENCE)
    .setSubject(consumerId)
    .setJti(newId('ctk'))
    .sign(privateKey)
  return TOKEN_PREFIX + token
}

/**
 * Checks form, signature and claims (RFC 8725): one algorithm, one type, one audience, keys of the local set only.
 *
 * Undefined for every token that is not ours or is not valid now; why is nobody's business.
 */
export async function verifyConsumerToken(
  keys: SigningKeys,
  issuer: string,
  token: string,
  now: Date,
): Promise<ConsumerClaims | undefined> {
  const jws = token.slice(TOKEN_PREFIX.length)
  if (!token.startsWith(TOKEN_PREFIX) || token.length > MAX_LENGTH) return undefined
  try {
    const { alg, typ, kid, ...others } = decodeProtectedHeader(jws)
    if (alg !== 'EdDSA' || typ !== TYPE || kid === undefined || Object.keys(others).length > 0) return undefined
    const verifier = await keys.findVerifier(kid)
    if (!verifier) return undefined
    const checks = { algorithms: ['EdDSA'], typ: TYPE, issuer, audience: AUDIENCE, currentDate: now }
    const { payload } = await jwtVerify(jws, verifier, { ...checks, requiredClaims: ['sub', 'iat', 'exp'] })
    const { sub, own, key, int, scope, iat, exp } = Claims.parse(payload)
    const [issuedAt, expiresAt] = [iat, exp].map((seconds) => new Date(Math.round(seconds * 1_000)))
    const isAhead = issuedAt!.getTime() > now.getTime() + LEEWAY_MS
    if (isAhead || expiresAt! <= now) return undefined
    const who = { ownerId: own, keyId: key, integrationId: int, consumerId: sub }
    return { ...who, scopes: scope, issuedAt: issuedAt!, expiresAt: expiresAt! }
  } catch {
    return undefined // malformed, over, badly signed: all the same to the caller
  }
}
