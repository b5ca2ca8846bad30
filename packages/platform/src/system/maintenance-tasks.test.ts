import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ENGINES, openTestDatabase } from '../db/engines.contract.ts'
import { declareTasks, setTaskPosition, takeDueTasks } from './maintenance-tasks.ts'

const HOUR_MS = 3_600_000

describe.each(ENGINES)('tasks of the whole installation on %s', (engine) => {
  let opened: Awaited<ReturnType<typeof openTestDatabase>>
  beforeAll(async () => {
    opened = await openTestDatabase(engine)
  })
  afterAll(() => opened.drop())

  test('of many processes that look at once, one takes each task, and nobody again before its time', async () => {
    const { db } = opened
    await Promise.all([1, 2].map(() => db.run(declareTasks, ['sweep', 'backup'])))
    const everyMs = { sweep: HOUR_MS, backup: HOUR_MS, 'of another version': 1 }
    const taken = await Promise.all(Array.from({ length: 8 }, () => db.run(takeDueTasks, everyMs)))
    expect(
      taken
        .flat()
        .map(({ name }) => name)
        .toSorted(),
    ).toEqual(['backup', 'sweep'])
    expect(await db.run(takeDueTasks, everyMs)).toEqual([])
  })

  test('a task comes again after its time, where it ended the last time', async () => {
    const { db } = opened
    await db.run(declareTasks, ['check counters'])
    expect(await db.run(takeDueTasks, { 'check counters': 0 })).toEqual([{ name: 'check counters', position: null }])
    await db.run(setTaskPosition, { name: 'check counters', position: 'mem_1' })
    await db.run(declareTasks, ['check counters'])
    expect(await db.run(takeDueTasks, { 'check counters': HOUR_MS })).toEqual([
      { name: 'check counters', position: 'mem_1' },
    ])
  })

  test('a task that this version does not know is left alone', async () => {
    const { db } = opened
    await db.run(declareTasks, ['of a later version'])
    expect(await db.run(takeDueTasks, { sweep: HOUR_MS })).toEqual([])
    expect(await db.run(takeDueTasks, { 'of a later version': HOUR_MS })).toHaveLength(1)
  })
})
