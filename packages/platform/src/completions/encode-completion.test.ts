import { type EventSource, NO_USAGE, type RunEvent, SseParser } from '@bureau/protocol'
import { describe, expect, test } from 'vitest'
import { FlushTimer } from '../events/flush-timer.ts'
import { allOf, newRun } from '../events/run-event-log.contract.ts'
import { MemoryRunEventLogs } from '../events/run-event-log.memory.ts'
import { RunRecorder } from '../events/run-recorder.ts'
import type { RunErrorView } from '../runs/run-view.ts'
import { encodeCompletion, type RunOutcome, type StreamMeta, terminalFrames } from './encode-completion.ts'

const META: StreamMeta = {
  runId: 'run_1',
  chatId: 'chat_1',
  aliasChatId: null,
  usageRequestId: '7f0c',
  agent: 'CEO',
  createdAt: '2026-11-20T22:10:11.120Z',
  eventsUrl: 'https://stream.example.com/v1/runs/run_1/events',
  resumeFrom: 0,
  resumed: false,
  replayed: false,
}

const USER: EventSource = { agent: 'CEO', callerAgent: null, agent_run_id: 'stay_1' }

const COMPLETED: RunOutcome = {
  runId: 'run_1',
  chatId: 'chat_1',
  status: 'completed',
  newMessages: [{ role: 'assistant', content: 'Hi' }],
  usage: NO_USAGE,
  error: null,
}

const LOST: RunErrorView = {
  code: 'runner_lost',
  message: 'The server running this response stopped.',
  class: 'system',
  retryable: true,
}

/** The whole stream of a run with these events, as text. */
async function streamOf(events: readonly RunEvent[], outcome = COMPLETED, after = 0): Promise<string> {
  const log = new MemoryRunEventLogs().create(newRun())
  const recorder = new RunRecorder({ log, timer: new FlushTimer(1000), onOutputLimit: () => {} })
  for (const event of events) recorder.emit(event)
  recorder.flush()
  await log.seal(terminalFrames(outcome))
  log.release()
  const meta = { ...META, resumed: after > 0, resumeFrom: after }
  const chunks = encodeCompletion(meta, log.read(after, new AbortController().signal))
  return (await allOf(chunks)).join('')
}

const raw = (json: string, more: object = {}): RunEvent => ({
  type: 'model.event',
  source: USER,
  kind: 'response.output_text.delta',
  json,
  ...more,
})

describe('the stream of a completion', () => {
  test('is retry and meta without an id, numbered frames, messages and end', async () => {
    const delta = '{"type":"response.output_text.delta","item_id":"msg_1","delta":"The report"}'
    const tail = '"agent":"CEO","callerAgent":null,"agent_run_id":"stay_1","item_id":"msg_1"'
    const messages = `{"new_messages":[{"role":"assistant","content":"Hi"}],"run_id":"run_1","chatId":"chat_1","status":"completed","cancelled":false,"usage":${JSON.stringify(NO_USAGE)}}`
    expect(await streamOf([raw(delta, { item_id: 'msg_1' })])).toBe(
      [
        'retry: 2000',
        'event: meta',
        'data: {"run_id":"run_1","chatId":"chat_1","aliasChatId":null,"usageRequestId":"7f0c","agent":"CEO","created_at":"2026-11-20T22:10:11.120Z","resumed":false,"replayed":false,"resume_from":0,"events_url":"https://stream.example.com/v1/runs/run_1/events"}',
        '',
        'id: 1',
        `data: {"data":{"type":"raw_response_event","data":${delta},${tail}}}`,
        '',
        'id: 2',
        'event: messages',
        `data: ${messages}`,
        '',
        'id: 3',
        'event: end',
        'data: [DONE]',
        '',
        '',
      ].join('\n'),
    )
  })

  test('has the data frames of the self-hosted server', async () => {
    const nested: EventSource = { agent: 'Clerk', callerAgent: 'CEO', agent_run_id: 'stay_2', parent_run_id: 'call_1' }
    const item = { type: 'tool_call_item', agent: { name: 'Clerk' }, raw_item: { type: 'function_call', name: 'add' } }
    const text = await streamOf([
      { type: 'run.started', run_id: 'run_1', agent: 'CEO' },
      { type: 'agent.updated', source: USER },
      { type: 'item.created', source: nested, name: 'tool_called', item, call_id: 'call_2' },
      { type: 'custom', source: USER, data: { type: 'progress', percent: 5 } },
      { type: 'oauth.redirect', state: 's', server: 'drive', auth_url: 'https://a.example/?x=1' },
      { type: 'oauth.status', state: 's', server: 'drive', status: 'authorized' },
    ])
    const frames = new SseParser().push(text).slice(1, -2)
    expect(frames.map(({ id, event }) => [id, event])).toEqual([
      ['1', null],
      ['2', null],
      ['3', null],
      ['4', 'oauth_redirect'],
      ['5', 'oauth_status'],
    ])
    const source = { agent: 'CEO', callerAgent: null, agent_run_id: 'stay_1' }
    expect(frames.map(({ data }) => JSON.parse(data) as unknown)).toEqual([
      { data: { type: 'agent_updated_stream_event', new_agent: { name: 'CEO' }, ...source } },
      { data: { type: 'run_item_stream_event', name: 'tool_called', item, call_id: 'call_2', ...nested } },
      { data: { type: 'progress', percent: 5, ...source } },
      { state: 's', server: 'drive', auth_url: 'https://a.example/?x=1' },
      { state: 's', server: 'drive', status: 'authorized' },
    ])
  })

  test('a failed run says why, once, right before messages', async () => {
    const failed: RunOutcome = { ...COMPLETED, status: 'failed', newMessages: [], usage: null, error: LOST }
    const events: RunEvent[] = [
      { type: 'agent.updated', source: USER },
      { type: 'run.error', source: USER, error: { code: 'internal_error', message: 'said elsewhere' } },
    ]
    const frames = new SseParser().push(await streamOf(events, failed)).slice(2)
    expect(frames).toEqual([
      { id: '2', event: null, data: '{"error":"The server running this response stopped.","code":"runner_lost"}' },
      { id: '3', event: 'messages', data: expect.any(String) as string },
      { id: '4', event: 'end', data: '[DONE]' },
    ])
    expect(JSON.parse(frames[1]?.data ?? '')).toEqual({
      new_messages: [],
      run_id: 'run_1',
      chatId: 'chat_1',
      status: 'failed',
      cancelled: false,
      error: LOST,
    })
  })

  test('a cancelled run says so', () => {
    const [messages] = terminalFrames({ ...COMPLETED, status: 'cancelled', fileIdsMap: { 'a.pdf': 'file_1' } })
    expect(messages).toContain('"status":"cancelled","cancelled":true')
    expect(messages).toContain('"file_ids_map":{"a.pdf":"file_1"}')
  })

  test('a resumed one begins after the number that the client has', async () => {
    const events = [1, 2, 3].map((n): RunEvent => ({ type: 'custom', source: USER, data: { type: `n${n}` } }))
    const frames = new SseParser().push(await streamOf(events, COMPLETED, 2))
    expect(frames.map(({ id }) => id)).toEqual([null, '3', '4', '5'])
    expect(JSON.parse(frames[0]?.data ?? '')).toMatchObject({ resumed: true, resume_from: 2 })
  })

  test('nothing that a run says can open a field or an event of its own', async () => {
    const evil = 'x\n\nevent: end\ndata: [DONE]\n\n\r\nid: 99\u0000\ud800'
    const outcome: RunOutcome = { ...COMPLETED, newMessages: [{ role: 'assistant', content: evil }] }
    const text = await streamOf(
      [
        raw(`{"type":"x",\n\n"delta":${JSON.stringify(evil)}}`, { kind: 'x', item_id: evil, call_id: evil }),
        { type: 'agent.updated', source: { ...USER, agent: evil } },
        { type: 'custom', source: USER, data: { type: evil } },
        { type: 'oauth.redirect', state: evil, server: evil, auth_url: evil },
      ],
      outcome,
    )
    const frames = new SseParser().push(text)
    expect(frames.map(({ id }) => id)).toEqual([null, '1', '2', '3', '4', '5', '6'])
    expect(frames.filter(({ event }) => event === 'end')).toHaveLength(1)
    for (const { data } of frames.slice(0, -1)) expect(JSON.parse(data)).toBeTruthy()
    expect(text).not.toMatch(/\\u0000|\\ud800/)
  })
})
