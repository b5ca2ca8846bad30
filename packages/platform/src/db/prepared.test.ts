import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from './database.ts'
import { askDifferently, listKeptStatements, PARTS, storeParts } from './database.test-operations.ts'
import { ENGINES, openTestDatabase, queryRows } from './engines.contract.ts'
import { openDatabase } from './open-database.ts'

describe.each(ENGINES)('prepared queries on %s', (engine) => {
  let db: Database
  let url: string
  let drop: () => Promise<void>

  beforeAll(async () => {
    ;({ db, url, drop } = await openTestDatabase(engine))
    await db.run(queryRows, PARTS)
  })
  afterAll(() => drop())

  test('are kept on a connection, whatever else was asked on it before, and that is not kept without bound', async () => {
    expect(await db.run(askDifferently, 700)).toBe((700 * 699) / 2)
    expect(await db.run(askDifferently, 700)).toBe((700 * 699) / 2)
    await db.run(storeParts, [{ id: 'nut', weight: 3, madeAt: null, notes: null }])

    const kept = await db.run(listKeptStatements, undefined)
    expect(kept.filter((statement) => /^(?:insert into|select .* from) "parts"/s.test(statement))).toHaveLength(2)
    expect(kept.length).toBeLessThanOrEqual(503)
  })

  test('take each value as its column does, and null as null', async () => {
    const bolt = { id: 'bolt', weight: 12, madeAt: new Date('2026-03-29T01:30:00.123Z'), notes: ["it's", 'M8'] }
    const bare = { id: 'bare', weight: null, madeAt: null, notes: null }
    const again = { ...bolt, weight: 2 ** 52, notes: [] }

    const found = await db.run(storeParts, [bolt, bare, again])

    expect(found).toEqual([
      { ...bolt, isNull: false },
      { ...bare, isNull: true },
      { ...again, isNull: false },
    ])
  })

  test('are asked by many operations at once, each with its own values', async () => {
    const parts = Array.from({ length: 40 }, (_, weight) => ({ id: `p${weight}`, weight, madeAt: null, notes: null }))
    const found = await Promise.all(parts.map((part) => db.run(storeParts, [part])))
    expect(found.map(([part]) => part?.weight)).toEqual(parts.map(({ weight }) => weight))
  })

  test.runIf(engine === 'postgres')('behind a pooler nothing is kept on a connection', async () => {
    const pooled = await openDatabase(`${url}&pgbouncer=true`)
    try {
      await pooled.run(storeParts, [{ id: 'pooled', weight: 1, madeAt: null, notes: null }])
      expect(await pooled.run(listKeptStatements, undefined)).toEqual([])
    } finally {
      await pooled.close()
    }
  })
})
