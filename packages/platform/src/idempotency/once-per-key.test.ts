import { ServiceError } from '@bureau/protocol'
import { describe, expect, test } from 'vitest'
import { unavailable } from '../db/database-error.ts'
import { CommitUnknownError, type Database } from '../db/database.ts'
import { ENGINES } from '../db/engines.contract.ts'
import { SWEEP_NAMES, sweepExpired } from '../db/sweep-expired.ts'
import type { PlatformStore } from '../platform-store.ts'
import type { TestTenant } from '../test-store.contract.ts'
import { useTenant, useTestStore } from '../use-test-store.contract.ts'
import { type Answer, oncePerKey } from './once-per-key.ts'

describe.each(ENGINES)('Idempotency-Key on %s', (engine) => {
  const platform = useTestStore(engine)
  const tenant = useTenant(platform)

  const refuse = (refusal: ServiceError): Answer => ({ status: refusal.status, body: { code: refusal.code } })
  type Asking = Pick<TestTenant, 'ownerId' | 'caller'> & { readonly store?: PlatformStore }
  const once = (key: string, request: unknown, work: () => Promise<Answer>, asking: Asking = tenant) => {
    const { ownerId, caller, store = platform.store } = asking
    return oncePerKey(store, { ownerId, apiKeyId: caller.keyId, route: 'POST /v1/things', key }, request, {
      work,
      refuse,
      shownOnce: ['token'],
    })
  }
  /** The tenant, while the database is away for one operation. */
  const without = (name: string): Asking => {
    const { db } = platform
    const wire: Database = {
      engine: db.engine,
      failed: db.failed,
      close: () => db.close(),
      run: (operation, args, options) =>
        operation.name === name ? Promise.reject(unavailable('away')) : db.run(operation, args, options),
    }
    return { ...tenant, store: { ...platform.store, db: wire } }
  }
  const made = (id: string) => async (): Promise<Answer> => ({ status: 201, body: { id, token: 'token-canary' } })

  test('repeats the first answer, without its secrets, and does not do the work again', async () => {
    const body = { id: 'one', token: 'token-canary' }
    expect(await once('a', { n: 1 }, made('one'))).toEqual({ status: 201, body, replayed: false })
    expect(await once('a', { n: 1 }, made('two'))).toEqual({
      status: 201,
      body: { ...body, token: null },
      replayed: true,
    })
    const kept = await platform.rows(`SELECT i::text || encode(response_enc, 'escape') AS all FROM idempotency_keys i`)
    expect(JSON.stringify(kept)).not.toContain('token-canary')
  })

  test('another request with the key is refused; other API keys and other owners have keys of their own', async () => {
    await once('b', { n: 1 }, made('one'))
    await expect(once('b', { n: 2 }, made('two'))).rejects.toMatchObject({ code: 'idempotency_key_reused' })
    const colleague = { ...tenant, caller: { ...tenant.caller, keyId: 'key_other' } }
    expect(await once('b', { n: 1 }, made('own'), colleague)).toMatchObject({ body: { id: 'own' }, replayed: false })
    expect(await once('b', { n: 2 }, made('own'), await platform.addTenant())).toMatchObject({ replayed: false })
  })

  test('of many at the same moment one works; the others are told that it is at work or get its answer', async () => {
    let worked = 0
    const gate = Promise.withResolvers<void>()
    const all = Array.from({ length: 10 }, () =>
      once('c', {}, async () => {
        worked++
        await gate.promise
        return { status: 200, body: 'done' }
      }).catch((error: ServiceError) => error.code),
    )
    await Promise.any(
      all.map((one) =>
        one.then((answer) => (answer === 'idempotency_in_progress' ? answer : Promise.reject(new Error('not yet')))),
      ),
    )
    gate.resolve()
    const answers = await Promise.all(all)
    expect(worked).toBe(1)
    const first = answers.filter((answer) => typeof answer === 'object' && !answer.replayed)
    expect(first).toEqual([{ status: 200, body: 'done', replayed: false }])
    for (const answer of answers) expect(['idempotency_in_progress', expect.any(Object)]).toContainEqual(answer)
  })

  test('a refusal is an answer; a defect gives the key back', async () => {
    const refused = () => Promise.reject(new ServiceError('member_not_found'))
    const broken = () => Promise.reject(new Error('broken'))
    expect(await once('d', {}, refused)).toEqual({ status: 404, body: { code: 'member_not_found' }, replayed: false })
    expect(await once('d', {}, made('late'))).toMatchObject({ status: 404, replayed: true })
    await expect(once('e', {}, broken)).rejects.toThrow('broken')
    expect(await once('e', {}, made('again'))).toMatchObject({ status: 201, replayed: false })
  })

  test('an answer that cannot be kept is given all the same, and the work is not done again', async () => {
    expect(await once('h', {}, made('one'), without('keepAnswer'))).toMatchObject({ status: 201, body: { id: 'one' } })
    await expect(once('h', {}, made('two'))).rejects.toMatchObject({ code: 'idempotency_in_progress' })
  })

  test('what may have been done is not done again: every repetition reads that nobody knows', async () => {
    const unknown = () => Promise.reject(new CommitUnknownError('the answer to COMMIT was lost'))
    const answer = { status: 503, body: { code: 'database_unavailable' } }
    expect(await once('i', {}, unknown)).toEqual({ ...answer, replayed: false })
    expect(await once('i', {}, made('two'))).toEqual({ ...answer, replayed: true })
  })

  test('a key that cannot be given back hides no defect', async () => {
    const broken = () => Promise.reject(new Error('broken'))
    await expect(once('j', {}, broken, without('releaseIdempotencyKey'))).rejects.toThrow('broken')
  })

  test('the key of a request that was lost can be tried again after a minute, by the same request only', async () => {
    const started = Promise.withResolvers<void>()
    void once('f', { n: 1 }, () => {
      started.resolve()
      return new Promise(() => {}) // the process that did this was killed
    })
    await started.promise
    await expect(once('f', { n: 1 }, made('x'))).rejects.toMatchObject({ code: 'idempotency_in_progress' })
    await platform.rows("UPDATE idempotency_keys SET created_at = now() - interval '61 seconds' WHERE key = 'f'")
    await expect(once('f', { n: 2 }, made('x'))).rejects.toMatchObject({ code: 'idempotency_key_reused' })
    expect(await once('f', { n: 1 }, made('x'))).toMatchObject({ status: 201, replayed: false })
  })

  test('is forgotten after 24 hours', async () => {
    await once('g', {}, made('one'))
    await platform.rows("UPDATE idempotency_keys SET expires_at = now() - interval '1 second' WHERE key = 'g'")
    expect(await once('g', { other: true }, made('two'))).toMatchObject({ body: { id: 'two' }, replayed: false })
    await platform.rows("UPDATE idempotency_keys SET expires_at = now() - interval '1 second'")
    for (const name of SWEEP_NAMES) await platform.db.run(sweepExpired, name)
    expect(await platform.rows('SELECT 1 FROM idempotency_keys')).toEqual([])
  })
})
