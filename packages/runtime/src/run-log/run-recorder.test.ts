import type { EventSource, Message, ModelEvent, RunEvent } from '@bureau/protocol'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { FlushTimer } from './flush-timer.ts'
import { ENDING, newRun, readAll } from './run-log.contract.ts'
import { MemoryRunLogs } from './run-log.memory.ts'
import type { LogEvent, RunLog } from './run-log.ts'
import { COALESCE_MS, RunRecorder } from './run-recorder.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

const USER: EventSource = { agent: 'CEO', callerAgent: null, agent_run_id: 'stay_1' }
const NESTED: EventSource = { agent: 'Clerk', callerAgent: 'CEO', agent_run_id: 'stay_2', parent_run_id: 'call_1' }

type DeltaOptions = { item?: string; part?: number; source?: EventSource; rest?: Record<string, unknown> }

function delta(text: string, { item = 'msg_1', part = 0, source = USER, rest = {} }: DeltaOptions = {}): ModelEvent {
  const event = { type: 'response.output_text.delta', item_id: item, content_index: part, delta: text, ...rest }
  return { type: 'model.event', source, kind: event.type, json: JSON.stringify(event), item_id: item }
}

const custom = (name: string): RunEvent => ({ type: 'custom', source: USER, data: { type: name } })

function record(changes: { maxOutputBytes?: number } = {}): {
  log: RunLog
  recorder: RunRecorder
  onOutputLimit: ReturnType<typeof vi.fn<() => void>>
} {
  const log = new MemoryRunLogs().create(newRun())
  const onOutputLimit = vi.fn<() => void>()
  const recorder = new RunRecorder({ log, timer: new FlushTimer(COALESCE_MS), onOutputLimit, ...changes })
  return { log, recorder, onOutputLimit }
}

const tick = (): void => void vi.advanceTimersByTime(COALESCE_MS)

/** An agency's own event has a type, a piece of text what the provider sent. */
type Data = { type?: string; data?: { delta?: string; content_index?: number }; item_id?: string; agent: string }

async function ended(log: RunLog): Promise<Data[]> {
  await log.seal(ENDING)
  log.release()
  return (await readAll(log)).slice(0, -2).map(({ event }) => dataOf(event))
}

function dataOf(event: LogEvent): Data {
  if (event.type === 'custom') return { type: String(event.data['type']), agent: event.source.agent }
  if (event.type !== 'model.event') throw new Error(`a ${event.type} was not expected`)
  const data = JSON.parse(event.json) as NonNullable<Data['data']>
  return { data, ...(event.item_id !== undefined && { item_id: event.item_id }), agent: event.source.agent }
}

describe('RunRecorder', () => {
  test('the first piece of a text goes out at once, what follows within the interval together', async () => {
    const { log, recorder } = record()
    recorder.emit(delta('The'))
    expect(log.head).toBe(1)
    recorder.emit(delta(' rep'))
    recorder.emit(delta('ort'))
    expect(log.head).toBe(1)
    tick()
    expect(log.head).toBe(2)
    recorder.emit(delta(' is'))
    expect(log.head).toBe(2)
    tick()
    tick()
    recorder.emit(delta(' in.'))
    expect(log.head).toBe(4)
    expect((await ended(log)).map(({ data }) => data?.delta)).toEqual(['The', ' report', ' is', ' in.'])
  })

  test('a single piece stays as the provider sent it; several are the last one with all the text', async () => {
    const { log, recorder } = record()
    const odd: ModelEvent = { ...delta('1'), json: '{"item_id":"msg_1", "content_index":0, "delta":"1", "n":1.0}' }
    recorder.emit(odd)
    recorder.emit(delta('2', { rest: { sequence_number: 7, logprobs: [{ token: '2' }] } }))
    recorder.emit(delta('3', { rest: { sequence_number: 8, logprobs: [{ token: '3' }], obfuscation: 'x' } }))
    recorder.flush()
    const live = await ended(log)
    expect((await readAll(log))[0]?.event).toEqual(odd)
    expect(live[1]?.data).toEqual({
      type: 'response.output_text.delta',
      item_id: 'msg_1',
      content_index: 0,
      delta: '23',
      sequence_number: 8,
      logprobs: [{ token: '2' }, { token: '3' }],
      obfuscation: 'x',
    })
  })

  test('text waits for no other event, and nothing overtakes it', async () => {
    const { log, recorder } = record()
    for (const text of ['a', 'b', 'c']) recorder.emit(delta(text))
    recorder.emit(custom('progress'))
    recorder.emit(delta('d'))
    recorder.emit(delta('e', { item: 'msg_2' }))
    recorder.emit(delta('f', { item: 'msg_2', part: 1 }))
    recorder.emit(delta('g', { item: 'msg_2', part: 1, source: NESTED }))
    const shown = (await ended(log)).map(({ type, data }) => data?.delta ?? type)
    expect(shown).toEqual(['a', 'bc', 'progress', 'd', 'e', 'f', 'g'])
  })

  test('coalescing never changes text, order or events, whenever it happens', async () => {
    const piece = fc.record({
      text: fc.string({ unit: 'binary', minLength: 1 }),
      item: fc.constantFrom('msg_1', 'msg_2'),
      part: fc.constantFrom(0, 0, 1),
      source: fc.constantFrom(USER, USER, NESTED),
    })
    const steps = fc.array(fc.oneof({ weight: 5, arbitrary: piece }, fc.constantFrom('tick', 'other')))
    await fc.assert(
      fc.asyncProperty(steps, async (steps) => {
        const { log, recorder } = record()
        const expected: [string, string][] = []
        for (const step of steps) {
          if (step === 'tick') tick()
          else if (step === 'other') {
            recorder.emit(custom('other'))
            expected.push(['other', ''])
          } else {
            recorder.emit(delta(step.text, step))
            expected.push([`${step.item} ${step.part} ${step.source.agent}`, step.text])
          }
        }
        recorder.flush()
        const shown = (await ended(log)).map(({ type, data, item_id, agent }): [string, string] =>
          data ? [`${item_id} ${data.content_index} ${agent}`, data.delta ?? ''] : [String(type), ''],
        )
        expect(segments(shown)).toEqual(segments(expected).map(([key, text]) => [key, text]))
      }),
    )
  })

  test('half a surrogate pair waits for the other half, but not for ever', async () => {
    const { log, recorder } = record()
    recorder.emit(delta('one \ud83d'))
    tick()
    recorder.emit(delta('\ude00 two \ud83d'))
    tick()
    recorder.emit(custom('other'))
    recorder.emit(delta('\ude00'))
    const shown = (await ended(log)).map(({ type, data }) => data?.delta ?? type)
    expect(shown).toEqual(['one ', '😀 two ', '\ud83d', 'other', '\ude00'])
  })

  test('no timer runs while nothing is gathered', () => {
    const { recorder } = record()
    recorder.emit(custom('other'))
    expect(vi.getTimerCount()).toBe(0)
    recorder.emit(delta('a'))
    expect(vi.getTimerCount()).toBe(1)
    tick()
    expect(vi.getTimerCount()).toBe(0)
  })

  test('many runs share one timer', () => {
    const timer = new FlushTimer(COALESCE_MS)
    const logs = Array.from({ length: 20 }, () => new MemoryRunLogs().create(newRun()))
    for (const log of logs) {
      const recorder = new RunRecorder({ log, timer, onOutputLimit: () => {} })
      recorder.emit(delta('a'))
      recorder.emit(delta('b'))
    }
    expect(vi.getTimerCount()).toBe(1)
    tick()
    expect(logs.every(({ head }) => head === 2)).toBe(true)
    tick()
    expect(vi.getTimerCount()).toBe(0)
  })

  test('a run that has logged all that it may is told so once, and logs no more', async () => {
    const { log, recorder, onOutputLimit } = record({ maxOutputBytes: 10_000 })
    for (let index = 0; index < 1000; index++) recorder.emit(custom(`${index} ${'x'.repeat(500)}`))
    expect(onOutputLimit).toHaveBeenCalledTimes(1)
    const shown = await ended(log)
    expect(shown.length).toBeGreaterThan(10)
    expect(shown.length).toBeLessThan(20)
  })

  test('never asks the run to wait for readers', () => {
    const { recorder, log } = record()
    const still = log.read(0, new AbortController().signal)[Symbol.asyncIterator]()
    void still.next()
    for (let index = 0; index < 2000; index++) recorder.emit(custom('x'.repeat(2000)))
    expect(recorder.ready()).toBeUndefined()
  })

  test('start, failure and end of a run are not logged as they come', async () => {
    const { log, recorder } = record()
    const error = { code: 'run_timeout', message: 'late' } as const
    recorder.emit({ type: 'run.started', run_id: 'run_1', agent: 'CEO' })
    recorder.emit(delta('a'))
    recorder.emit(delta('b'))
    recorder.emit({ type: 'run.error', source: USER, error })
    expect((await ended(log)).map(({ data }) => data?.delta)).toEqual(['a', 'b'])
  })

  test('knows the text of the message to the user that is being written, until it is among the messages', () => {
    const { recorder } = record()
    const earlier: Message = { type: 'message', role: 'assistant', id: 'msg_0', content: [] }
    const message: Message = { ...earlier, id: 'msg_1' }
    expect(recorder.snapshot([])).toEqual({ new_messages: [] })
    recorder.emit(delta('Hel'))
    recorder.emit(delta('lo'))
    recorder.emit(delta('inner', { item: 'msg_9', source: NESTED }))
    expect(recorder.snapshot([earlier])).toEqual({
      new_messages: [earlier],
      partial: { item_id: 'msg_1', text: 'Hello' },
    })
    expect(recorder.snapshot([earlier, message])).toEqual({ new_messages: [earlier, message] })
  })
})

/** Neighbours of one key as one. */
function segments(pieces: readonly (readonly [string, string])[]): [string, string][] {
  const joined: [string, string][] = []
  for (const [key, text] of pieces) {
    const last = joined.at(-1)
    if (last && last[0] === key && key !== 'other') last[1] += text
    else joined.push([key, text])
  }
  return joined
}
