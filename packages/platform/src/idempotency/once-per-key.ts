import { isFields, ServiceError } from '@bureau/protocol'
import { isPassing } from '../db/database-error.ts'
import { CommitUnknownError } from '../db/database.ts'
import { newId } from '../ids.ts'
import type { PlatformStore } from '../platform-store.ts'
import { fingerprint } from '../security/fingerprint.ts'
import { type Place, seal, unsealText } from '../security/seal.ts'
import { claimIdempotencyKey, type IdempotencyKey, keepAnswer, releaseIdempotencyKey } from './idempotency-keys.repo.ts'

/** An answer of a route that is kept, with a JSON body. */
export type Answer = { readonly status: number; readonly body: unknown }

const place = ({ ownerId, apiKeyId, route, key }: IdempotencyKey): Place => ({
  table: 'idempotency_keys',
  column: 'response_enc',
  owner: ownerId,
  row: `${apiKeyId}|${route}|${key}`,
})

type Routine = {
  /** Checks that the caller may do it, and does it. */
  readonly work: () => Promise<Answer>
  /** Renders a refusal. */
  readonly refuse: (refusal: ServiceError) => Answer
  /** Members of the body that are secrets. They are not kept: in a repetition they are null. */
  readonly shownOnce: readonly string[]
}

/**
 * Does the work of a request once for each `Idempotency-Key` of an API key: a repetition gets the first answer,
 * `replayed`. The rights of an API key never change, so whoever gets an answer again may have it.
 *
 * Kept for 24 hours. A refusal (ServiceError below 500) is an answer and is kept too, and so is that nobody knows whether the work
 * was done; anything else thrown gives the key back.
 *
 * @throws ServiceError `idempotency_key_reused`, `idempotency_in_progress`
 */
export async function oncePerKey(
  store: PlatformStore,
  key: IdempotencyKey,
  request: unknown,
  routine: Routine,
): Promise<Answer & { readonly replayed: boolean }> {
  const { db, dataKeys, serverKey } = store
  const dataKey = await dataKeys.of(key.ownerId)
  const claim = newId('req')
  const first = await db.run(claimIdempotencyKey, { ...key, claim, fingerprint: fingerprint(serverKey, request) })
  if (first) {
    const body: unknown = JSON.parse(unsealText(dataKey, place(key), first.responseEnc))
    return { status: first.status, body, replayed: true }
  }
  const answer = await answerOf(routine, () => db.run(releaseIdempotencyKey, { ...key, claim }))
  const kept = withoutSecrets(answer.body, routine.shownOnce)
  const responseEnc = seal(dataKey, place(key), JSON.stringify(kept ?? null))
  try {
    await db.run(keepAnswer, { ...key, claim, answer: { status: answer.status, responseEnc } })
  } catch (error) {
    // The work is done: a client that was refused now would lose the secrets of the answer, and ask for the work again.
    if (!isPassing(error)) throw error
  }
  return { ...answer, replayed: false }
}

function withoutSecrets(body: unknown, shownOnce: readonly string[]): unknown {
  if (!isFields(body)) return body
  const secrets = shownOnce.filter((name) => Object.hasOwn(body, name))
  return { ...body, ...Object.fromEntries(secrets.map((name) => [name, null])) }
}

async function answerOf({ work, refuse }: Routine, release: () => Promise<void>): Promise<Answer> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof CommitUnknownError) return refuse(new ServiceError('database_unavailable', UNKNOWN))
    if (error instanceof ServiceError && error.status < 500) return refuse(error)
    // A key that cannot be given back can be used again after a minute; why the work failed is what the client has to know.
    await release().catch(() => {})
    throw error
  }
}

const UNKNOWN = {
  message:
    'It is not known whether the request was carried out. ' +
    'Look for what it has made before you send it under another Idempotency-Key.',
}
