import type { EventSource, Message, RunEvent } from '@bureau/protocol'
import {
  type EventChunk,
  FlushTimer,
  MemoryRunLogs,
  type RunLog,
  type RunLogReader,
  RunRecorder,
  StoredRunLog,
  StreamBroken,
} from '@bureau/runtime'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { endingOf, type RunOutcome } from '../runs/settle/ending-events.ts'
import { encodeText, readOffset, type TextStream } from './encode-text.ts'

const USER: EventSource = { agent: 'CEO', callerAgent: null, agent_run_id: 'stay_1' }
const NESTED: EventSource = { agent: 'Clerk', callerAgent: 'CEO', agent_run_id: 'stay_2', parent_run_id: 'call_1' }

const COMPLETED: RunOutcome = {
  run_id: 'run_1',
  status: 'completed',
  new_messages: [],
  usage: null,
  error: null,
}
const FAILED: RunOutcome = {
  ...COMPLETED,
  status: 'failed',
  error: { code: 'upstream_timeout', message: 'The model provider did not answer.' },
}

function raw(kind: string, item: string, text: string, source = USER): RunEvent {
  return {
    type: 'model.event',
    source,
    kind,
    json: JSON.stringify({ type: kind, item_id: item, delta: text }),
    item_id: item,
  }
}
const delta = (item: string, text: string, source = USER): RunEvent =>
  raw('response.output_text.delta', item, text, source)

const message = (id: string, text: string, source = USER): Message => ({
  type: 'message',
  id,
  role: 'assistant',
  content: [{ type: 'output_text', text }],
  agent: source.agent,
  callerAgent: source.callerAgent,
})

function created(id: string, text: string, source = USER): RunEvent {
  const item = { type: 'message_output_item', agent: { name: source.agent }, raw_item: message(id, text) }
  return { type: 'item.created', source, name: 'message_output_created', item }
}

const storageOf = (chunks: EventChunk[]) => ({
  append: async (chunk: EventChunk) => void chunks.push(chunk),
  read: async (after: number) => chunks.filter(({ lastSeq }) => lastSeq > after),
})

function newLog(chunks: EventChunk[] = []): RunLog {
  return new MemoryRunLogs().create({
    runId: 'run_1',
    chunks: storageOf(chunks),
    snapshot: () => ({ new_messages: [] }),
  })
}

function open(): { log: RunLog; emit: (...events: RunEvent[]) => void } {
  const log = newLog()
  const recorder = new RunRecorder({ log, timer: new FlushTimer(1000), onOutputLimit: () => {} })
  const emit = (...events: RunEvent[]): void => {
    for (const event of events) recorder.emit(event)
    recorder.flush()
  }
  return { log, emit }
}

async function finish(log: RunLog, outcome = COMPLETED): Promise<void> {
  await log.seal(endingOf(outcome))
  log.release()
}

async function logOf(events: readonly RunEvent[], outcome = COMPLETED): Promise<RunLog> {
  const { log, emit } = open()
  emit(...events)
  await finish(log, outcome)
  return log
}

const never = new AbortController().signal
const start = (log: RunLogReader, offset = 0) => encodeText(log, { offset, signal: never })

async function drain(stream: TextStream | undefined): Promise<{ text: string; status: string }> {
  if (!stream) throw new Error('there is nothing to read')
  let text = ''
  for (;;) {
    const next = await stream.next()
    if (next.done) return { text, status: next.value }
    expect(next.value.isWellFormed()).toBe(true)
    text += next.value
  }
}

const read = async (log: RunLogReader, offset = 0) => drain(await start(log, offset))

const ANSWER = [delta('msg_1', 'Grüße '), delta('msg_1', '😀, '), delta('msg_2', 'und 漢字'), delta('msg_2', '.')]
const TEXT = 'Grüße 😀, \n\nund 漢字.'

describe('Text Only Mode', () => {
  test('is the text of the messages, set apart by a blank line, and how the run ended', async () => {
    expect(await read(await logOf(ANSWER))).toEqual({ text: TEXT, status: 'completed' })
    expect(await read(await logOf(ANSWER, { ...COMPLETED, status: 'cancelled' }))).toEqual({
      text: TEXT,
      status: 'cancelled',
    })
    expect(await read(await logOf([]))).toEqual({ text: '', status: 'completed' })
  })

  test('holds no reasoning, no tools and nothing that agents say to each other', async () => {
    const call = { type: 'tool_call_output_item', agent: { name: 'CEO' }, raw_item: { type: 'function_call_output' } }
    const log = await logOf([
      raw('response.reasoning_text.delta', 'rs_1', 'let me think'),
      delta('msg_1', 'One'),
      raw('response.function_call_arguments.delta', 'fc_1', '{"a":1}'),
      { type: 'item.created', source: USER, name: 'tool_output', item: { ...call, output: 'tool text' } },
      delta('msg_9', 'said to the CEO', NESTED),
      created('msg_9', 'said to the CEO', NESTED),
      { type: 'custom', source: USER, data: { type: 'raw_response_event', data: { type: 'x', delta: 'custom' } } },
      delta('msg_1', ' two'),
      { type: 'run.error', source: USER, error: { code: 'internal_error', message: 'an error sentence' } },
    ])
    expect((await read(log)).text).toBe('One two')
  })

  test('goes on with the agent that the conversation was handed over to', async () => {
    const support: EventSource = { ...USER, agent: 'Support', agent_run_id: 'stay_3' }
    const log = await logOf([delta('msg_1', 'I pass you on.'), delta('msg_2', 'Hello!', support)])
    expect((await read(log)).text).toBe('I pass you on.\n\nHello!')
  })

  test('has a message once, whether its text came in pieces or not', async () => {
    const log = await logOf([
      delta('msg_1', 'in pieces'),
      created('msg_1', 'in pieces'),
      created('msg_2', 'as a whole'),
      created('msg_3', ''),
      created('msg_4', 'last'),
    ])
    expect((await read(log)).text).toBe('in pieces\n\nas a whole\n\nlast')
  })

  test('comes while it is written', async () => {
    const { log, emit } = open()
    const stream = await start(log)
    const first = stream?.next()
    emit(delta('msg_1', 'Hel'))
    expect(await first).toEqual({ done: false, value: 'Hel' })
    emit(delta('msg_1', 'lo'))
    expect(await stream?.next()).toEqual({ done: false, value: 'lo' })
    const last = stream?.next()
    await finish(log)
    expect(await last).toEqual({ done: true, value: 'completed' })
  })

  test('a failed run breaks the stream off after its text, never with a sentence in it', async () => {
    for (const events of [ANSWER, []]) {
      const stream = (await start(await logOf(events, FAILED)))!
      const pieces: string[] = []
      const reading = (async () => {
        for await (const piece of stream) pieces.push(piece)
      })()
      await expect(reading).rejects.toMatchObject({ name: 'StreamBroken', reason: 'run_failed' })
      expect(pieces.join('')).toBe(events.length > 0 ? TEXT : '')
    }
  })

  test('a log that breaks off breaks the text off', async () => {
    const { log, emit } = open()
    emit(...ANSWER)
    const stream = await start(log)
    await stream?.next()
    log.abandon(new StreamBroken('run_taken_away'))
    await expect(stream?.next()).rejects.toMatchObject({ reason: 'run_taken_away' })
  })

  test('stops when the reader is gone', async () => {
    const stop = new AbortController()
    const { log } = open()
    const stream = await encodeText(log, { offset: 0, signal: stop.signal })
    const next = stream?.next()
    stop.abort(new Error('gone'))
    await expect(next).rejects.toThrow('gone')
  })
})

describe('Text Only Mode from an offset', () => {
  test('every offset of a run that is over gives the rest, or is refused within a character', async () => {
    const log = await logOf(ANSWER)
    const bytes = Buffer.from(TEXT)
    for (let offset = 0; offset < bytes.length; offset++) {
      const rest = bytes.subarray(offset)
      if (Buffer.from(rest.toString()).equals(rest)) expect((await read(log, offset)).text).toBe(rest.toString())
      else await expect(start(log, offset)).rejects.toMatchObject({ code: 'invalid_offset' })
    }
    for (const offset of [bytes.length, bytes.length + 1, 1e9]) expect(await start(log, offset)).toBeUndefined()
    expect(await read(await logOf([]))).toEqual({ text: '', status: 'completed' })
    expect(await start(await logOf([]), 1)).toBeUndefined()
  })

  test('whatever was read and whatever comes later, the two parts are the whole', async () => {
    const parts = fc.array(fc.string({ unit: 'grapheme', minLength: 1 }), { minLength: 1 })
    await fc.assert(
      fc.asyncProperty(parts, parts, fc.nat(), async (before, after, random) => {
        const { log, emit } = open()
        emit(...before.map((text) => delta('msg_1', text)))
        const known = Array.from(before.join(''))
        const had = known.slice(0, random % (known.length + 1)).join('')
        const stream = await start(log, Buffer.byteLength(had))
        emit(...after.map((text) => delta('msg_2', text)))
        await finish(log)
        expect(had + (await drain(stream)).text).toBe(`${before.join('')}\n\n${after.join('')}`)
      }),
    )
  })

  test('an offset ahead of a running text waits for it', async () => {
    const { log, emit } = open()
    emit(delta('msg_1', 'abc'))
    const ahead = await start(log, 5)
    const within = await start(log, 4)
    emit(delta('msg_1', 'd'), delta('msg_1', '漢字'))
    await finish(log)
    await expect(drain(ahead)).rejects.toBeInstanceOf(StreamBroken)
    expect((await drain(within)).text).toBe('漢字')
  })

  test('a failed run still breaks off', async () => {
    const log = await logOf(ANSWER, FAILED)
    await expect(drain(await start(log, 4))).rejects.toMatchObject({ reason: 'run_failed' })
    await expect(drain(await start(log, 999))).rejects.toMatchObject({ reason: 'run_failed' })
  })

  test.each([
    [undefined, 0],
    ['0', 0],
    ['17', 17],
  ])('the query %s is %i', (query, offset) => expect(readOffset(query)).toBe(offset))

  test.each(['', '-1', '1.5', 'x', '99999999999999999'])('the query %j is refused', (query) => {
    expect(() => readOffset(query)).toThrow(expect.objectContaining({ code: 'invalid_offset' }))
  })
})

describe('the text of a run that is only kept in records', () => {
  const said = [
    message('msg_0', 'for another agent', NESTED),
    message('msg_1', 'Grüße 😀, '),
    message('msg_2', 'und 漢字.'),
  ]
  const outcome: RunOutcome = { ...COMPLETED, new_messages: [{ role: 'user', content: 'Hi' }, ...said] }

  test('is that of its messages', async () => {
    const log = new StoredRunLog({ chunks: storageOf([]), lastSeq: 40, ending: endingOf(outcome) })
    expect(await read(log)).toEqual({ text: TEXT, status: 'completed' })
    expect((await read(log, 2)).text).toBe(TEXT.slice(2))
    expect(await start(log, 999)).toBeUndefined()
  })

  test('is not taken for whole when some of its log is missing', async () => {
    const chunks = [] as EventChunk[]
    const log = newLog(chunks)
    const recorder = new RunRecorder({ log, timer: new FlushTimer(1000), onOutputLimit: () => {} })
    recorder.emit(delta('msg_1', 'Grüße'))
    await log.store()
    const whole = new StoredRunLog({
      chunks: storageOf(chunks),
      lastSeq: 1_000_002,
      ending: endingOf({ ...outcome, status: 'cancelled' }),
    })
    expect(await read(whole)).toEqual({ text: 'Grüße', status: 'cancelled' })
    const torn = new StoredRunLog({ chunks: storageOf(chunks), lastSeq: 40, ending: endingOf(outcome) })
    await expect(read(torn)).rejects.toMatchObject({ reason: 'log_lost' })
  })
})
