import { decodeProtectedHeader, type JWTPayload, jwtVerify, SignJWT } from 'jose'
import type { SigningKeys } from './signing-keys.ts'

/** What tells the tokens of one kind from all others. */
export type TokenKind = { readonly type: string; readonly audience: string }

/** So much may the clock be ahead of the process that has signed a token. */
const LEEWAY_SECONDS = 60
/** Ours have at most about 1,000 characters. */
const MAX_LENGTH = 2_048

/** Makes a compact JWS whose first characters are the same for all of its kind, so that secret scanners know it. */
export function signToken(keys: SigningKeys, { type, audience }: TokenKind, claims: JWTPayload): Promise<string> {
  const { kid, privateKey } = keys.signer
  return new SignJWT({ ...claims, aud: audience }).setProtectedHeader({ alg: 'EdDSA', typ: type, kid }).sign(privateKey)
}

type Given = { readonly token: string; readonly issuer: string; readonly now: Date }

/**
 * Checks form, signature and times (RFC 8725): one algorithm, one type, one audience, keys of the local set only.
 *
 * @returns What the token claims. Undefined for every token that is not ours or is not valid now; why is nobody's business.
 */
export async function verifyToken(
  keys: SigningKeys,
  { type, audience }: TokenKind,
  { token, issuer, now }: Given,
): Promise<JWTPayload | undefined> {
  const kid = token.length > MAX_LENGTH ? undefined : readKid(token, type)
  const verifier = kid === undefined ? undefined : await keys.findVerifier(kid)
  if (!verifier) return undefined
  try {
    const checks = { algorithms: ['EdDSA'], typ: type, issuer, audience, currentDate: now }
    const { payload } = await jwtVerify(token, verifier, { ...checks, requiredClaims: ['sub', 'jti', 'iat'] })
    const isAhead = Number(payload.iat) > now.getTime() / 1_000 + LEEWAY_SECONDS
    return isAhead || payload.aud !== audience ? undefined : payload
  } catch {
    return undefined // malformed, over, badly signed: all the same to the caller
  }
}

/** A header with anything but our three members (`jku`, `x5u`, `jwk`, `crit`, `b64` …) is not one of ours. */
function readKid(token: string, type: string): string | undefined {
  try {
    const { alg, typ, kid, ...others } = decodeProtectedHeader(token)
    return alg === 'EdDSA' && typ === type && Object.keys(others).length === 0 ? kid : undefined
  } catch {
    return undefined
  }
}
