import { ServiceError } from '@bureau/protocol'
import { and, eq, sql } from 'drizzle-orm'
import { tenantOperation } from '../db/operation.ts'
import { idempotencyKeys } from '../db/schema.ts'

/** An `Idempotency-Key` of a route. It belongs to the API key that sent it: others may use the same words. */
export type IdempotencyKey = {
  readonly ownerId: string
  readonly apiKeyId: string
  readonly route: string
  readonly key: string
}

/** What a first request was answered with; the response is sealed. */
type StoredAnswer = { readonly status: number; readonly responseEnc: Uint8Array }

const isKey = ({ ownerId, apiKeyId, route, key }: IdempotencyKey) =>
  and(
    eq(idempotencyKeys.ownerId, ownerId),
    eq(idempotencyKeys.apiKeyId, apiKeyId),
    eq(idempotencyKeys.route, route),
    eq(idempotencyKeys.key, key),
  )

/** A request that has not answered after this long is taken for lost, and its key may be tried again. */
const ABANDONED = sql`interval '1 minute'`

/**
 * Takes a key for a request (`null`), or answers what the first request with it was answered.
 *
 * @throws ServiceError `idempotency_key_reused` (another request had it), `idempotency_in_progress`
 */
export const claimIdempotencyKey = tenantOperation(
  { source: import.meta.url, name: 'claimIdempotencyKey', lane: 'interactive' },
  async (tx, args: IdempotencyKey & { claim: string; fingerprint: Uint8Array }): Promise<StoredAnswer | null> => {
    const { ownerId, apiKeyId, route, key, claim, fingerprint } = args
    const fresh = { claim, fingerprint, status: null, responseEnc: null, createdAt: sql`now()`, expiresAt: EXPIRY }
    const taken = await tx
      .insert(idempotencyKeys)
      .values({ ownerId, apiKeyId, route, key, ...fresh })
      .onConflictDoUpdate({
        target: [idempotencyKeys.ownerId, idempotencyKeys.apiKeyId, idempotencyKeys.route, idempotencyKeys.key],
        set: fresh,
        setWhere: sql`${idempotencyKeys.expiresAt} <= now()
          OR (${idempotencyKeys.status} IS NULL AND ${idempotencyKeys.createdAt} <= now() - ${ABANDONED}
            AND ${idempotencyKeys.fingerprint} = excluded.fingerprint)`,
      })
      .returning({ claim: idempotencyKeys.claim })
    if (taken.length > 0) return null
    const [first] = await tx.select().from(idempotencyKeys).where(isKey(args))
    if (!first) throw new ServiceError('idempotency_in_progress') // given back in this very moment
    if (!Buffer.from(first.fingerprint).equals(fingerprint)) throw new ServiceError('idempotency_key_reused')
    if (first.status === null || first.responseEnc === null) throw new ServiceError('idempotency_in_progress')
    return { status: first.status, responseEnc: first.responseEnc }
  },
)

const EXPIRY = sql`now() + interval '24 hours'`

/** Keeps the answer of the request that holds the claim. */
export const keepAnswer = tenantOperation(
  { source: import.meta.url, name: 'keepAnswer', lane: 'interactive' },
  async (tx, args: IdempotencyKey & { claim: string; answer: StoredAnswer }): Promise<void> => {
    const { status, responseEnc } = args.answer
    const held = and(isKey(args), eq(idempotencyKeys.claim, args.claim))
    await tx.update(idempotencyKeys).set({ status, responseEnc }).where(held)
  },
)

/** Gives a key back after a failure that has nothing to do with the request. */
export const releaseIdempotencyKey = tenantOperation(
  { source: import.meta.url, name: 'releaseIdempotencyKey', lane: 'interactive' },
  async (tx, args: IdempotencyKey & { claim: string }): Promise<void> => {
    await tx.delete(idempotencyKeys).where(and(isKey(args), eq(idempotencyKeys.claim, args.claim)))
  },
)
