import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { EventSource, RunEnded, RunEvent } from '@bureau/protocol'
import { expect, test } from 'vitest'
import type { EventBatch } from './run-log.ts'
import { type EventBatches, UnkeptRunLog } from './unkept-run-log.ts'

const source: EventSource = { agent: 'Solo', callerAgent: null, agent_run_id: 'agent_run_1' }

function event(bytes: number): RunEvent {
  return { type: 'model.event', source, kind: 'response.output_text.delta', json: 'x'.repeat(bytes) }
}

const ended = { type: 'run.ended', run_id: 'r', status: 'completed' } as RunEnded

test('yields what was logged, in order, and ends after log.ended', async () => {
  const log = new UnkeptRunLog()
  log.emit(event(1))
  const batches = log.read()
  const first = (await batches.next()).value as EventBatch
  const second = batches.next()
  log.emit(event(2))
  log.emit(ended)

  expect(first).toMatchObject({ first: 1, events: [{ type: 'model.event' }] })
  expect((await second).value).toMatchObject({
    first: 2,
    events: [{ type: 'model.event' }, { type: 'run.ended' }, { type: 'log.ended' }],
  })
  expect((await batches.next()).done).toBe(true)
})

test('holds the producer back above 1 MiB and lets it go on when the reader has caught up', async () => {
  const log = new UnkeptRunLog()
  log.emit(event(1_000_000))
  expect(log.ready()).toBeUndefined()
  log.emit(event(100_000))
  const held = log.ready()
  expect(held).toBeInstanceOf(Promise)

  const batches = log.read()
  await batches.next()
  const next = batches.next()
  await held

  expect(log.ready()).toBeUndefined()
  log.emit(ended)
  await next
})

test('a reader that stops neither holds the producer back nor keeps events', async () => {
  const log = new UnkeptRunLog()
  log.emit(event(2_000_000))
  const held = log.ready()
  const batches = log.read()
  await batches.next()
  await batches.return()

  await held
  for (let n = 0; n < 10; n++) log.emit(event(1_000_000))
  expect(log.ready()).toBeUndefined()
})

test('a stream that waits keeps nothing of what its reader has taken', async () => {
  const log = new UnkeptRunLog()
  const batches = log.read()
  const collectGarbage = exposedGc()
  const taken = await takeOne(log, batches)
  const next = batches.next()
  await new Promise(setImmediate)
  collectGarbage()

  expect(taken.deref()).toBeUndefined()
  log.emit(ended)
  await next
})

/** In a function of its own, so that no variable of the test holds the event. */
async function takeOne(log: UnkeptRunLog, batches: EventBatches): Promise<WeakRef<RunEvent>> {
  log.emit(event(1))
  const { value } = await batches.next()
  return new WeakRef((value as EventBatch).events[0] as RunEvent)
}

function exposedGc(): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as () => void
}
