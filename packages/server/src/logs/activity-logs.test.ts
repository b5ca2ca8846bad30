import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ActivityLogs, type ActivityLogLimits } from './activity-logs.ts'

const line = (text: string): string => JSON.stringify({ message: text })

async function openLogs(limits: Partial<ActivityLogLimits>, prepare?: (directory: string) => Promise<unknown>) {
  const directory = await mkdtemp(path.join(tmpdir(), 'bureau-activity-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  await prepare?.(directory)
  const generous = { maxLogs: 100, maxLogBytes: 10_000, maxTotalBytes: 1_000_000 }
  const logs = await ActivityLogs.open(directory, (error) => expect.unreachable(String(error)), {
    ...generous,
    ...limits,
  })
  const names = async (): Promise<string[]> => (await readdir(directory)).toSorted()
  /** Writes these, one after the other. */
  const write = async (...ids: string[]): Promise<void> => {
    for (const id of ids) {
      logs.append(id, line(`about ${id}`))
      await logs.close()
    }
  }
  return { logs, names, write, directory }
}

test('of too many logs those go that were written to longest ago', async () => {
  const { names, write } = await openLogs({ maxLogs: 3 })
  await write('a', 'b', 'c', 'a', 'd')
  expect(await names()).toEqual(['a.jsonl', 'c.jsonl', 'd.jsonl'])
})

test('logs that are too large together go, the oldest first', async () => {
  const { logs, names, write } = await openLogs({ maxTotalBytes: 1_000 })
  logs.append('large', line('x'.repeat(900)))
  await logs.close()
  await write('b', 'c')
  expect(await names()).toEqual(['b.jsonl', 'c.jsonl', 'large.jsonl'])
  await write('d', 'e', 'f')
  expect(await names()).toEqual(['b.jsonl', 'c.jsonl', 'd.jsonl', 'e.jsonl', 'f.jsonl'])
})

test('many new logs at once are no more than there may be', async () => {
  const { logs, names } = await openLogs({ maxLogs: 3 })
  for (let number = 0; number < 1_000; number++) logs.append(`id-${number}`, line('x'))
  await logs.close()
  expect(await names()).toEqual(['id-0.jsonl', 'id-1.jsonl', 'id-2.jsonl'])
})

test('logs of before count, and so do those that a dying process was reading', async () => {
  const claimed = 'first.jsonl.0a1b2c3d-0000-4000-8000-000000000000'
  const { names, write } = await openLogs({ maxLogs: 3 }, async (directory) => {
    for (const [index, name] of [claimed, 'second.jsonl', 'third.jsonl', 'notes.txt'].entries()) {
      await writeFile(path.join(directory, name), `${line(name)}\n`)
      await utimes(path.join(directory, name), 1_000 + index, 1_000 + index)
    }
  })
  await write('new')
  expect(await names()).toEqual(['new.jsonl', 'notes.txt', 'second.jsonl', 'third.jsonl'])
  await write('newer')
  expect(await names()).toEqual(['new.jsonl', 'newer.jsonl', 'notes.txt', 'third.jsonl'])
})

test('a log that was read makes room', async () => {
  const { logs, names, write } = await openLogs({ maxLogs: 2 })
  await write('a', 'b')
  expect(await logs.take('b')).toEqual([{ message: 'about b' }])
  await write('c')
  expect(await names()).toEqual(['a.jsonl', 'c.jsonl'])
})

test('no more of a log is read than it may hold, whoever has written it', async () => {
  const { logs, directory } = await openLogs({ maxLogBytes: 100 })
  await writeFile(path.join(directory, 'foreign.jsonl'), `${line('x')}\n`.repeat(1_000))
  const records = await logs.take('foreign')
  expect(records!.length).toBe(Math.floor(100 / `${line('x')}\n`.length))
})
