import { describe, expect, test } from 'vitest'
import { ENGINES } from '../db/engines.contract.ts'
import { useTestStore } from '../use-test-store.contract.ts'
import { fanOutAnnouncements } from '../webhooks/webhook-retries.ts'
import { findDueWork } from './find-due-work.ts'
import { declareTasks, takeDueTasks } from './maintenance-tasks.ts'

const NOTHING = { ownRuns: false, overdueRuns: false, deliveries: false, tasks: false }

describe.each(ENGINES)('what there is to do, on %s', (engine) => {
  const platform = useTestStore(engine)

  const find = () => platform.db.run(findDueWork, { bootId: platform.bootId, tasks: ['sweep'] })

  test('nothing, while nothing happens', async () => {
    expect(await find()).toEqual(NOTHING)
  })

  test('a task of this version that is due', async () => {
    await platform.db.run(declareTasks, ['sweep', 'of a later version'])
    expect(await find()).toEqual({ ...NOTHING, tasks: true })
    await platform.db.run(takeDueTasks, { sweep: 60_000 })
    expect(await find()).toEqual(NOTHING)
  })

  test('a task that was taken while the clock of the database was years ahead', async () => {
    await platform.rows(`UPDATE maintenance_tasks SET due_at = now() + interval '3 years' WHERE name = 'sweep'`)
    expect(await find()).toEqual({ ...NOTHING, tasks: true })
    expect(await platform.db.run(takeDueTasks, { sweep: 60_000 })).toHaveLength(1)
    expect(await find()).toEqual(NOTHING)
  })

  test('a run of this process that is not new, then the announcement of its end', async () => {
    const tenant = await platform.addTenant()
    const admission = await tenant.admit()
    expect(await find()).toEqual(NOTHING)
    await platform.rows(`UPDATE runs SET created_at = now() - interval '1 minute' WHERE id = '${admission.run.runId}'`)
    expect(await find()).toEqual({ ...NOTHING, ownRuns: true })
    await tenant.finish(admission)
    expect(await find()).toEqual({ ...NOTHING, deliveries: true })
    await platform.db.run(fanOutAnnouncements, undefined)
    expect(await find()).toEqual(NOTHING)
  })

  test('a run that was cancelled while it waited', async () => {
    const tenant = await platform.addTenant()
    const { runId } = (await tenant.admit()).run
    await platform.rows(`UPDATE runs SET state = 'waiting', waiting_since = now() WHERE id = '${runId}'`)
    expect(await find()).toEqual(NOTHING)
    await platform.rows(`UPDATE runs SET cancel_requested_at = now() WHERE id = '${runId}'`)
    expect(await find()).toEqual({ ...NOTHING, overdueRuns: true })
  })
})
