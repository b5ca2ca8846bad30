import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from './database.ts'
import { ENGINES, openTestDatabase, queryRows } from './engines.contract.ts'
import { vacuumDatabase } from './vacuum.ts'

describe('the embedded database over a long time', () => {
  let opened: Awaited<ReturnType<typeof openTestDatabase>>
  let db: Database
  beforeAll(async () => {
    opened = await openTestDatabase('pglite')
    db = opened.db
    await db.run(queryRows, 'CREATE TABLE chunks (id serial PRIMARY KEY, round int, body bytea)')
    await db.run(queryRows, 'CREATE TABLE beats (id int PRIMARY KEY, n int)')
    await db.run(queryRows, 'INSERT INTO beats VALUES (1, 0)')
  })
  afterAll(() => opened.drop())

  /** What a day does: rows come, rows that are over go, counters move. */
  async function live(round: number): Promise<void> {
    await db.run(
      queryRows,
      `INSERT INTO chunks (round, body) SELECT ${round}, decode(repeat(md5(n::text), 40), 'hex') FROM generate_series(1, 1500) n`,
    )
    await db.run(queryRows, `DELETE FROM chunks WHERE round < ${round}`)
    for (let beat = 0; beat < 60; beat++) await db.run(queryRows, 'UPDATE beats SET n = n + 1')
    await db.run(queryRows, 'SELECT pg_stat_force_next_flush()') // the counters would come a second later
  }
  const size = async (): Promise<number> =>
    (await db.run(queryRows, "SELECT pg_total_relation_size('chunks')::int AS size"))[0]!['size'] as number

  test('grows no more once as much comes as goes', async () => {
    const sizes: number[] = []
    for (let round = 0; round < 8; round++) {
      await live(round)
      await vacuumDatabase(db)
      sizes.push(await size())
    }

    // One round being written and one being deleted, whatever the number of rounds.
    expect(Math.max(...sizes)).toBeLessThanOrEqual(sizes[0]! * 2.5)
  })

  test('is cleaned where something happened, and nowhere else', async () => {
    await vacuumDatabase(db)
    await live(100)

    expect(await vacuumDatabase(db)).toEqual(expect.arrayContaining(['chunks']))
    await db.run(queryRows, 'SELECT pg_stat_force_next_flush()')
    expect(await vacuumDatabase(db)).toEqual([])
  })

  test('leaves the records and the next operations as they were', async () => {
    const [before] = await db.run(queryRows, 'SELECT count(*)::int AS rows, min(round) AS round FROM chunks')
    await live(101)
    const [, after] = await Promise.all([
      vacuumDatabase(db),
      db.run(queryRows, 'SELECT count(*)::int AS rows, min(round) AS round FROM chunks'),
    ])

    expect([before, after]).toEqual([{ rows: 1500, round: 100 }, [{ rows: 1500, round: 101 }]])
  })
})

test.runIf(ENGINES.includes('postgres'))('a PostgreSQL server cleans itself', async () => {
  const { db, drop } = await openTestDatabase('postgres')

  expect(await vacuumDatabase(db)).toEqual([])
  await drop()
})
