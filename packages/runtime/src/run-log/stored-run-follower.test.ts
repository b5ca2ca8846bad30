import { expect, test } from 'vitest'
import { event, eventsOf, newRun, TestChunks } from './run-log.contract.ts'
import { MemoryRunLogs } from './run-log.memory.ts'
import { StoredRunFollower } from './stored-run-follower.ts'

test('what another process has stored with a hole is lost, and not only out of reach', async () => {
  const chunks = new TestChunks()
  const log = new MemoryRunLogs().create(newRun({ chunks }))
  for (const text of ['one', 'two', 'three']) {
    log.append(event(text))
    await log.store()
  }
  chunks.rows.delete(2)
  const follower = new StoredRunFollower({ chunks, head: 3, isOver: () => true })

  await expect(eventsOf(follower, 0)).rejects.toMatchObject({ name: 'StreamBroken', reason: 'log_lost' })
})

test('records that cannot be read are out of reach', async () => {
  const chunks = { read: () => Promise.reject(new Error('the database cannot be reached')) }
  const follower = new StoredRunFollower({ chunks, head: 3, isOver: () => false })

  await expect(eventsOf(follower, 0)).rejects.toMatchObject({ name: 'StreamBroken', reason: 'log_unreachable' })
})
