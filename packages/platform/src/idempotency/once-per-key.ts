import { ServiceError } from '@bureau/protocol'
import { newId } from '../ids.ts'
import type { PlatformStore } from '../platform-store.ts'
import { fingerprint } from '../security/fingerprint.ts'
import { type Place, seal, unsealText } from '../security/seal.ts'
import { claimIdempotencyKey, type IdempotencyKey, keepAnswer, releaseIdempotencyKey } from './idempotency-keys.repo.ts'

/** An answer of a route: a status below 500 and a JSON body. */
export type Answer = { readonly status: number; readonly body: unknown }

const place = ({ ownerId, route, key }: IdempotencyKey): Place => ({
  table: 'idempotency_keys',
  column: 'response_enc',
  owner: ownerId,
  row: `${route}|${key}`,
})

/**
 * Does the work of a request once for each `Idempotency-Key`: a repetition gets the first answer, `replayed`.
 *
 * Kept for 24 hours. A refusal (ServiceError below 500) is an answer and is kept, by `refuse`, which renders it;
 * anything else thrown gives the key back.
 *
 * @throws ServiceError `idempotency_key_reused`, `idempotency_in_progress`
 */
export async function oncePerKey(
  store: PlatformStore,
  key: IdempotencyKey,
  request: unknown,
  routine: { readonly work: () => Promise<Answer>; readonly refuse: (refusal: ServiceError) => Answer },
): Promise<Answer & { readonly replayed: boolean }> {
  const { db, dataKeys, serverKey } = store
  const dataKey = await dataKeys.of(key.ownerId)
  const claim = newId('req')
  const first = await db.run(claimIdempotencyKey, { ...key, claim, fingerprint: fingerprint(serverKey, request) })
  if (first) {
    const body: unknown = JSON.parse(unsealText(dataKey, place(key), first.responseEnc))
    return { status: first.status, body, replayed: true }
  }
  try {
    const answer = await answerOf(routine)
    const responseEnc = seal(dataKey, place(key), JSON.stringify(answer.body ?? null))
    await db.run(keepAnswer, { ...key, claim, answer: { status: answer.status, responseEnc } })
    return { ...answer, replayed: false }
  } catch (error) {
    await db.run(releaseIdempotencyKey, { ...key, claim })
    throw error
  }
}

async function answerOf(routine: Parameters<typeof oncePerKey>[3]): Promise<Answer> {
  try {
    return await routine.work()
  } catch (error) {
    if (error instanceof ServiceError && error.status < 500) return routine.refuse(error)
    throw error
  }
}
