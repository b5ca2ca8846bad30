import { createHash } from 'node:crypto'
import { decodeProtectedHeader, jwtVerify, SignJWT } from 'jose'
import type { SigningKeys } from './signing-keys.ts'

/** What a token says once its signature holds: whose key it is. What the key may do is in the database. */
type TokenClaims = { readonly ownerId: string; readonly keyId: string }

type Issue = {
  readonly issuer: string
  readonly ownerId: string
  readonly keyId: string
  readonly expiresAt: Date | null
}

const TYPE = 'apikey+jwt'
const AUDIENCE = 'platform-api'
const LEEWAY_SECONDS = 60
/** Ours have about 400 characters. */
const MAX_LENGTH = 2_048

/** Makes a token: a compact JWS whose first characters are the same for all, so that secret scanners know it. */
export function signApiKeyToken(keys: SigningKeys, issue: Issue): Promise<string> {
  const { kid, privateKey } = keys.signer
  const token = new SignJWT()
    .setProtectedHeader({ alg: 'EdDSA', typ: TYPE, kid })
    .setIssuer(issue.issuer)
    .setAudience(AUDIENCE)
    .setSubject(issue.ownerId)
    .setJti(issue.keyId)
    .setIssuedAt()
  if (issue.expiresAt) token.setExpirationTime(issue.expiresAt)
  return token.sign(privateKey)
}

/**
 * Checks form, signature and claims (RFC 8725): one algorithm, one type, one audience, keys of the local set only.
 *
 * Undefined for every token that is not ours; why is nobody's business.
 */
export async function verifyApiKeyToken(
  keys: SigningKeys,
  issuer: string,
  token: string,
  now: Date,
): Promise<TokenClaims | undefined> {
  if (token.length > MAX_LENGTH) return undefined
  const kid = readKid(token)
  const verifier = kid === undefined ? undefined : await keys.findVerifier(kid)
  if (!verifier) return undefined
  try {
    const { payload } = await jwtVerify(token, verifier, {
      algorithms: ['EdDSA'],
      typ: TYPE,
      issuer,
      audience: AUDIENCE,
      clockTolerance: LEEWAY_SECONDS,
      currentDate: now,
      requiredClaims: ['sub', 'jti', 'iat'],
    })
    const { sub, jti, iat, exp, aud } = payload
    if (aud !== AUDIENCE || !isTime(iat) || iat > now.getTime() / 1000 + LEEWAY_SECONDS) return undefined
    if (exp !== undefined && !isTime(exp)) return undefined
    return /^own_[0-9a-z]{26}$/.test(sub ?? '') && jti ? { ownerId: sub!, keyId: jti } : undefined
  } catch {
    return undefined // malformed, expired, badly signed: all the same to the caller
  }
}

/** A header with anything but our three members (`jku`, `x5u`, `jwk`, `crit`, `b64` …) is not one of ours. */
function readKid(token: string): string | undefined {
  try {
    const header = decodeProtectedHeader(token)
    const { alg, typ, kid } = header
    return Object.keys(header).length === 3 && alg === 'EdDSA' && typ === TYPE ? kid : undefined
  } catch {
    return undefined
  }
}

const isTime = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** What is stored of a token and compared: 32 bytes. */
export function hashToken(token: string): Uint8Array {
  return new Uint8Array(createHash('sha256').update(token).digest())
}
