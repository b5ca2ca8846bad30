import { ConfigError, ServiceError } from '@bureau/protocol'
import { type EgressPolicyOptions, guardedFetch, readBearer } from '@bureau/runtime'
import type { FastifyBaseLogger } from 'fastify'
import { createRemoteJWKSet, customFetch, errors, type JWTPayload, jwtVerify, type JWTVerifyGetKey } from 'jose'
import { z } from 'zod'
import type { Authenticate } from './users.ts'

export type JwtOptions = {
  /** The issuer of the tokens, exactly as it writes itself: `https://login.example.com`. Its discovery document is read once. */
  readonly issuer: string
  /** What the tokens must be for: this server's own name at the issuer. */
  readonly audience: string | readonly string[]
  /** Where the issuer's keys are. Default: as its `/.well-known/openid-configuration` says. */
  readonly jwksUri?: string
  /** Signatures that are accepted; public-key ones only. Default: RS256, PS256, ES256, ES384, EdDSA and the like. */
  readonly algorithms?: readonly string[]
  /** The claim that becomes the user's id. Default `sub`. */
  readonly idClaim?: string
  /** How far the clocks may be apart, in seconds. Default 5. */
  readonly clockToleranceSeconds?: number
  /** Addresses besides public ones, and that of the issuer, which the issuer may name for its keys. */
  readonly egress?: EgressPolicyOptions
}

const PUBLIC_KEY_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
]

const Algorithm = z.enum(PUBLIC_KEY_ALGORITHMS, `must be one of ${PUBLIC_KEY_ALGORITHMS.join(', ')}`)
const HttpUrl = z.url({ protocol: /^https?$/, error: 'must be an http: or https: address' })

const JwtChecks = z.strictObject({
  issuer: HttpUrl,
  audience: z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]),
  jwksUri: HttpUrl.optional(),
  algorithms: z.array(Algorithm).min(1).optional(),
  idClaim: z.string().min(1).optional(),
  clockToleranceSeconds: z.number().min(0).max(300).optional(),
  egress: z.object({}).loose().optional(),
})

/** What the token itself is to blame for; everything else means that the issuer's keys could not be had. */
const TOKEN_ERRORS = [
  errors.JWTExpired,
  errors.JWTClaimValidationFailed,
  errors.JWTInvalid,
  errors.JWSInvalid,
  errors.JWSSignatureVerificationFailed,
  errors.JOSEAlgNotAllowed,
  errors.JOSENotSupported,
  errors.JWKSNoMatchingKey,
  errors.JWKSMultipleMatchingKeys,
]

/**
 * Lets in who brings a signed access token (`Authorization: Bearer`) of an OpenID Connect issuer, for this server. Every
 * token needs `exp` and the claim that becomes the user's id; all claims are in `user.claims`. The issuer's keys are
 * fetched when they are first needed, then kept for ten minutes and as long as they fit.
 *
 * The function that this returns throws ServiceError `issuer_unavailable` (503) when the keys cannot be had.
 *
 * @throws ConfigError an option is not valid.
 */
export function jwtAuthenticate(options: JwtOptions): Authenticate {
  const checked = JwtChecks.safeParse(options)
  if (!checked.success) throw new ConfigError(`jwtAuthenticate: ${z.prettifyError(checked.error)}`)
  const { issuer, audience, algorithms = PUBLIC_KEY_ALGORITHMS, idClaim = 'sub', clockToleranceSeconds = 5 } = options
  const keys = new IssuerKeys(options)
  const rules = {
    issuer,
    audience: [audience].flat(),
    algorithms: [...algorithms],
    requiredClaims: ['exp', idClaim],
    clockTolerance: clockToleranceSeconds,
  }
  const authenticate: Authenticate = async ({ headers, log }) => {
    const token = readBearer(headers.authorization)
    if (token === undefined) return null
    const claims = await verified(log, () => jwtVerify(token, keys.find, rules))
    const id = claims?.[idClaim]
    return claims && typeof id === 'string' && id.trim() !== '' ? { id, claims } : null
  }
  issuers.set(authenticate, issuer)
  return authenticate
}

const issuers = new WeakMap<Authenticate, string>()

/** Whose tokens a check accepts; undefined when the check is not made by `jwtAuthenticate`. */
export const issuerOf = (authenticate: Authenticate): string | undefined => issuers.get(authenticate)

/** Null: the token is not valid. @throws ServiceError `issuer_unavailable` */
async function verified(
  log: FastifyBaseLogger,
  verify: () => Promise<{ readonly payload: JWTPayload }>,
): Promise<JWTPayload | null> {
  try {
    return (await verify()).payload
  } catch (cause) {
    if (TOKEN_ERRORS.some((kind) => cause instanceof kind)) {
      // It says which claim is wrong, so that a wrong audience is found; never what is in the token.
      log.info({ reason: (cause as Error).message }, 'a token was refused')
      return null
    }
    throw new ServiceError('issuer_unavailable', { cause, headers: { 'retry-after': '5' } })
  }
}

const TIMEOUT_MS = 5_000
/** After a failure the issuer is left alone for this long. */
const PAUSE_MS = 5_000

const Discovery = z.looseObject({ issuer: z.string(), jwks_uri: z.url() })

/** The keys of an issuer, found by its discovery document. */
class IssuerKeys {
  readonly #options: JwtOptions
  readonly #fetch: ReturnType<ReturnType<typeof guardedFetch>['fetchFor']>
  #keys: Promise<JWTVerifyGetKey> | undefined

  constructor(options: JwtOptions) {
    const { issuer, jwksUri = issuer, egress = {} } = options
    this.#options = options
    this.#fetch = guardedFetch(egress).fetchFor({ url: issuer, authServerUrl: jwksUri })
  }

  /** The key of a token, as `jose` asks for it. */
  readonly find: JWTVerifyGetKey = async (...token) => {
    this.#keys ??= this.#open()
    return (await this.#keys)(...token)
  }

  #open(): Promise<JWTVerifyGetKey> {
    const opening = this.#keySet()
    opening.catch(() => {
      setTimeout(() => (this.#keys = undefined), PAUSE_MS).unref()
    })
    return opening
  }

  async #keySet(): Promise<JWTVerifyGetKey> {
    const uri = this.#options.jwksUri ?? (await this.#discover())
    return createRemoteJWKSet(new URL(uri), {
      timeoutDuration: TIMEOUT_MS,
      [customFetch]: (url, init) => this.#fetch(url, init),
    })
  }

  async #discover(): Promise<string> {
    const { issuer } = this.#options
    const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    const response = await this.#fetch(address, { headers: { accept: 'application/json' }, redirect: 'error', signal })
    if (!response.ok) throw new Error(`${address} answered ${response.status}`)
    const found = Discovery.parse(await response.json())
    if (found.issuer !== issuer) throw new Error(`${address} is of another issuer: ${found.issuer}`)
    return found.jwks_uri
  }
}
