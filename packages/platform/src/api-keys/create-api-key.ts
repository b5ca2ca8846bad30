import { type ApiKey, ServiceError } from '@bureau/protocol'
import type { Database } from '../db/database.ts'
import { newId } from '../ids.ts'
import { hashToken, signApiKeyToken } from './api-key-token.ts'
import { getApiKey, insertApiKey, replaceApiKey } from './api-keys.repo.ts'
import { type Caller, requireGrantable } from '../caller.ts'
import { refusedField } from '../refused-field.ts'
import type { SigningKeys } from './signing-keys.ts'

/** What it takes to make API keys: `issuer` names the installation and is checked when a token comes back. */
export type KeyIssuer = { readonly db: Database; readonly signingKeys: SigningKeys; readonly issuer: string }

type NewApiKey = {
  readonly name: string
  /** Default: all. */
  readonly scopes?: readonly string[]
  readonly integrationIds?: readonly string[] | null
  /** Must lie in the future. */
  readonly expiresAt?: Date | null
}

/** `token` is shown this once; only its hash is kept. */
export type IssuedApiKey = ApiKey & { readonly token: string }

/**
 * A key that lives no longer than the one that makes it.
 *
 * @throws ServiceError `insufficient_scope`, `integration_not_found`, `invalid_request` (already expired)
 */
export async function createApiKey(issuer: KeyIssuer, caller: Caller, key: NewApiKey): Promise<IssuedApiKey> {
  const { scopes = ['*'], integrationIds = null } = key
  requireGrantable(caller, scopes, integrationIds)
  const expiresAt = withinLifeOf(caller, key.expiresAt ?? null)
  return issue(issuer, caller.ownerId, { ...key, scopes, integrationIds, expiresAt }, (row) =>
    issuer.db.run(insertApiKey, { ownerId: caller.ownerId, actor: caller.keyId, key: row }),
  )
}

/** The operator's way to a key of an owner who has none. @throws ServiceError `invalid_request` (already expired) */
export function createFirstApiKey(
  issuer: KeyIssuer,
  ownerId: string,
  key: Omit<NewApiKey, 'integrationIds'>,
): Promise<IssuedApiKey> {
  return issue(issuer, ownerId, { scopes: ['*'], ...key }, (row) =>
    issuer.db.run(insertApiKey, { ownerId, actor: 'operator', key: row }),
  )
}

/**
 * Replaces a key by one with the same name, scopes and reach. The old one works for `overlapSeconds` more (0 to 604800).
 *
 * @throws ServiceError `api_key_not_found`, `insufficient_scope`
 */
export async function rotateApiKey(
  issuer: KeyIssuer,
  caller: Caller,
  keyId: string,
  overlapSeconds: number,
): Promise<IssuedApiKey> {
  const { ownerId, integrationIds } = caller
  const old = await issuer.db.run(getApiKey, { ownerId, integrationIds, keyId })
  requireGrantable(caller, old.scopes, old.integrationIds)
  const expiresAt = old.expiresAt === null ? null : new Date(old.expiresAt)
  const usable = old.revokedAt === null && !isOver(expiresAt)
  if (!usable) throw new ServiceError('api_key_not_found')
  const end = withinLifeOf(caller, expiresAt)
  return issue(issuer, ownerId, { ...old, expiresAt: end }, (successor) =>
    issuer.db.run(replaceApiKey, { ownerId, keyId, actor: caller.keyId, overlapSeconds, successor }),
  )
}

/** The earlier of a time and the end of the caller's own key. */
function withinLifeOf({ expiresAt: end }: Caller, time: Date | null): Date | null {
  return end === null || (time !== null && time < end) ? time : end
}

const isOver = (expiresAt: Date | null): boolean => expiresAt !== null && expiresAt.getTime() <= Date.now()

type Row = Parameters<typeof insertApiKey.work>[1]['key']

async function issue(
  { signingKeys, issuer }: KeyIssuer,
  ownerId: string,
  key: NewApiKey & { readonly scopes: readonly string[] },
  store: (row: Row) => Promise<ApiKey>,
): Promise<IssuedApiKey> {
  const expiresAt = key.expiresAt ?? null
  if (isOver(expiresAt)) {
    throw refusedField('invalid_request', 'expiresAt', 'expiresAt must lie in the future.')
  }
  const id = newId('key')
  const { kid } = signingKeys.signer
  const token = await signApiKeyToken(signingKeys, { issuer, ownerId, keyId: id, expiresAt })
  const view = await store({
    id,
    ownerId,
    kid,
    name: key.name,
    tokenSha256: hashToken(token),
    hint: token.slice(-4),
    scopes: [...key.scopes],
    integrationIds: key.integrationIds ? [...key.integrationIds] : null,
    expiresAt,
  })
  return { ...view, token }
}
