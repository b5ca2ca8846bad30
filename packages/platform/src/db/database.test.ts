import type { ServiceError } from '@bureau/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from './database.ts'
import {
  countThings,
  failAfterWrite,
  ignoreFailedStatement,
  insertThing,
  insertTogether,
  numberOfReading,
  refuse,
  rollbackWithAnswer,
  urgentCount,
  writeWhileReading,
} from './database.test-operations.ts'
import { ENGINES, openTestDatabase, queryRows, queryRowsAs } from './engines.contract.ts'

describe.each(ENGINES)('database on %s', (engine) => {
  let db: Database
  let drop: () => Promise<void>

  beforeAll(async () => {
    ;({ db, drop } = await openTestDatabase(engine))
    await db.run(queryRows, 'CREATE TABLE things (name text PRIMARY KEY)')
  })
  afterAll(() => drop())

  test('commits what an operation wrote and answers with its result', async () => {
    expect(await db.run(insertThing, 'lamp')).toBe('lamp')
    expect(await db.run(queryRows, "SELECT name FROM things WHERE name = 'lamp'")).toEqual([{ name: 'lamp' }])
  })

  test('undoes everything when the operation refuses, and keeps the refusal whole', async () => {
    await expect(db.run(refuse, 'chair')).rejects.toMatchObject({
      name: 'ServiceError',
      code: 'run_active',
      status: 409,
      headers: { 'X-Agent-Active-Run-Id': 'run_1' },
    })
    expect(await db.run(countThings, 'chair')).toBe(0)
  })

  test('undoes everything and still answers when the operation asks for it', async () => {
    expect(await db.run(rollbackWithAnswer, 'table')).toBe('known already')
    expect(await db.run(countThings, 'table')).toBe(0)
  })

  test('an operation that only reads gets no transaction number and cannot write', async () => {
    expect(await db.run(numberOfReading, undefined)).toBeNull()
    await expect(db.run(writeWhileReading, 'bench')).rejects.toBeInstanceOf(Error)
    expect(await db.run(countThings, 'bench')).toBe(0)
  })

  test('names a refused statement by its SQLSTATE and constraint, without the values', async () => {
    await db.run(insertThing, 'secret-value')
    const error = await db.run(insertThing, 'secret-value').catch((reason: unknown) => reason)
    expect(error).toMatchObject({ name: 'DatabaseError', sqlstate: '23505', constraint: 'things_pkey' })
    expect(JSON.stringify(error) + String(error)).not.toContain('secret-value')
  })

  test('does not commit when the operation swallowed a failed statement', async () => {
    await expect(db.run(ignoreFailedStatement, 'shelf')).rejects.toThrow(
      /a statement of the operation had failed|current transaction is aborted/,
    )
    expect(await db.run(countThings, 'shelf')).toBe(0)
  })

  test('survives a defect in an operation', async () => {
    await expect(db.run(failAfterWrite, 'sofa')).rejects.toThrow('a defect')
    expect(await db.run(countThings, 'sofa')).toBe(0)
  })

  test('takes queries that are sent together in their order', async () => {
    await db.run(insertTogether, ['cup', 'plate'])
    const names = await db.run(queryRows, "SELECT name FROM things WHERE name ~ 'cup|plate' ORDER BY ctid")
    expect(names.slice(0, 2)).toEqual([{ name: 'cup' }, { name: 'plate' }])
    expect(names).toHaveLength(4)
  })

  test.each([
    ['by the database', ['fork', 'fork', 'spoon'], { sqlstate: '23505' }],
    ['by itself', ['nothing', 'fork'], { message: 'no such thing' }],
  ])(
    'when one of the queries sent together is refused %s, the others leave nothing behind',
    async (_, names, error) => {
      await expect(db.run(insertTogether, names)).rejects.toMatchObject(error)
      expect(await db.run(queryRows, "SELECT name FROM things WHERE name ~ 'fork|spoon'")).toEqual([])
      expect(await db.run(countThings, 'lamp')).toBe(1) // nor is the connection lost to others
    },
  )

  test('leaves nothing behind when the caller is gone before COMMIT', async () => {
    const gone = new AbortController()
    gone.abort(new Error('client left'))
    await expect(db.run(insertThing, 'rug', { signal: gone.signal })).rejects.toThrow('client left')
    expect(await db.run(countThings, 'rug')).toBe(0)
  })

  test('refuses with overloaded beyond 500 waiting operations', async () => {
    const answers = await Promise.allSettled(Array.from({ length: 700 }, () => db.run(countThings, 'lamp')))
    const isOverload = (answer: (typeof answers)[number]): boolean =>
      answer.status === 'rejected' && (answer.reason as ServiceError).code === 'overloaded'
    const refused = answers.filter(isOverload)
    expect(refused.length).toBeGreaterThan(100)
    expect(refused.length).toBeLessThanOrEqual(200)
    expect(refused[0]).toMatchObject({ reason: { code: 'overloaded', status: 503 } })
    expect(await db.run(countThings, 'lamp')).toBe(1)
  })

  test('what runs write goes before requests that wait', async () => {
    const order: string[] = []
    const requests = Array.from({ length: 200 }, () => db.run(countThings, 'lamp').then(() => order.push('request')))
    const urgent = db.run(urgentCount, undefined).then(() => order.push('run'))
    await Promise.all([...requests, urgent])
    expect(order.indexOf('run')).toBeLessThan(100)
  })

  test('a tenant sees nothing without an owner, and no owner can be smuggled in', async () => {
    const ownerId = `own_${'0'.repeat(26)}`
    await expect(db.run(queryRowsAs, { ownerId, query: 'SELECT * FROM owners' })).rejects.toMatchObject({
      sqlstate: '42501',
    })
    const injected = { ownerId: `${ownerId}',true),set_config('role','none`, query: 'SELECT 1' }
    await expect(db.run(queryRowsAs, injected)).rejects.toThrow('not an owner id')
  })
})
