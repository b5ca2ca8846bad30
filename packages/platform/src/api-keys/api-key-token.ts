import { createHash } from 'node:crypto'
import { z } from 'zod'
import { signToken, type TokenKind, verifyToken } from './signed-token.ts'
import type { SigningKeys } from './signing-keys.ts'

/** What a token says once its signature holds: whose key it is. What the key may do is in the database. */
type TokenClaims = { readonly ownerId: string; readonly keyId: string }

type Issue = TokenClaims & { readonly issuer: string; readonly expiresAt: Date | null }

const KIND: TokenKind = { type: 'apikey+jwt', audience: 'platform-api' }

const Seconds = z.int().nonnegative()
const Claims = z.object({
  sub: z.string().regex(/^own_[0-9a-z]{26}$/),
  jti: z.string().min(1),
  iat: Seconds,
  exp: Seconds.optional(),
})

const secondsOf = (time: number): number => Math.floor(time / 1_000)

export function signApiKeyToken(keys: SigningKeys, { issuer, ownerId, keyId, expiresAt }: Issue): Promise<string> {
  const claims = { iss: issuer, sub: ownerId, jti: keyId, iat: secondsOf(Date.now()) }
  return signToken(keys, KIND, { ...claims, ...(expiresAt && { exp: secondsOf(expiresAt.getTime()) }) })
}

/** Undefined for every token that is not ours or is not valid now. */
export async function verifyApiKeyToken(
  keys: SigningKeys,
  issuer: string,
  token: string,
  now: Date,
): Promise<TokenClaims | undefined> {
  const { data } = Claims.safeParse(await verifyToken(keys, KIND, { token, issuer, now }))
  return data && { ownerId: data.sub, keyId: data.jti }
}

/** What is stored of a token and compared: 32 bytes. */
export function hashToken(token: string): Uint8Array {
  return new Uint8Array(createHash('sha256').update(token).digest())
}
