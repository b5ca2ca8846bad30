import { beforeAll, expect, test } from 'vitest'
import { answer, modelCall } from '../test-store.contract.ts'
import { useTenant, useTestStore } from '../use-test-store.contract.ts'

const platform = useTestStore('pglite', true)
const tenant = useTenant(platform, { memberAllowancesEnabled: true })
beforeAll(async () => {
  await tenant.addMember('u', {})
})

let requests = 0
async function run(times: number): Promise<void> {
  for (let count = 0; count < times; count++) {
    const admission = await tenant.admit({ consumerId: 'u', usageRequestId: `r-${requests++}` })
    await tenant.start(admission)
    expect(await tenant.finish(admission, { items: [answer('Paris.')], calls: [modelCall(1)] })).toBe('settled')
  }
}

/** Rows that statements have looked at so far, in all tables. */
async function rowsRead(): Promise<number> {
  await platform.rows('SELECT pg_stat_force_next_flush()')
  const [row] = await platform.rows(`SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int AS rows
    FROM pg_stat_all_tables WHERE schemaname = current_schema()`)
  return row!['rows'] as number
}

test('a run reads no more rows when its owner has had many, also while nobody has counted them', async () => {
  await run(250) // the statements were planned for empty tables
  const before = await rowsRead()
  await run(10)

  expect((await rowsRead()) - before).toBeLessThan(10 * 100)
})
