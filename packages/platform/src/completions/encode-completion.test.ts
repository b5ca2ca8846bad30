import { type EventSource, NO_USAGE, type RunEvent, SseParser } from '@bureau/protocol'
import type { LogEvent } from '@bureau/runtime'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { storable } from '../db/storable.ts'
import { endingOf, type RunOutcome } from '../runs/settle/ending-events.ts'
import { completionEncoder, encodeMeta, frameData, type StreamMeta } from './encode-completion.ts'

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
  run_id: 'run_1',
  status: 'completed',
  new_messages: [{ role: 'assistant', content: 'Hi' }],
  usage: NO_USAGE,
  error: null,
}

const LOST = { code: 'runner_lost', message: 'The server running this response stopped.' } as const

/** The whole stream of a run with these events, as text. */
function streamOf(events: readonly LogEvent[], outcome = COMPLETED): string {
  const logged: LogEvent[] = [...events, ...endingOf(outcome), { type: 'log.ended' }]
  const encode = completionEncoder(META.chatId)
  return encodeMeta(META) + logged.map((event, index) => encode(event, index + 1)).join('')
}

const raw = (json: string, more: object = {}): RunEvent => ({
  type: 'model.event',
  source: USER,
  kind: 'response.output_text.delta',
  json,
  ...more,
})

describe('the stream of a completion', () => {
  test('is retry and meta without an id, numbered frames, messages and end', () => {
    const delta = '{"type":"response.output_text.delta","item_id":"msg_1","delta":"The report"}'
    const tail = '"agent":"CEO","callerAgent":null,"agent_run_id":"stay_1","item_id":"msg_1"'
    const messages = `{"new_messages":[{"role":"assistant","content":"Hi"}],"run_id":"run_1","chatId":"chat_1","status":"completed","cancelled":false,"usage":${JSON.stringify(NO_USAGE)}}`
    expect(streamOf([raw(delta, { item_id: 'msg_1' })])).toBe(
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

  test('has the data frames of the self-hosted server', () => {
    const nested: EventSource = { agent: 'Clerk', callerAgent: 'CEO', agent_run_id: 'stay_2', parent_run_id: 'call_1' }
    const item = { type: 'tool_call_item', agent: { name: 'Clerk' }, raw_item: { type: 'function_call', name: 'add' } }
    const text = streamOf([
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

  test('a failed run says why right before messages', () => {
    const failed: RunOutcome = { ...COMPLETED, status: 'failed', new_messages: [], usage: null, error: LOST }
    const events: RunEvent[] = [{ type: 'agent.updated', source: USER }]
    const frames = new SseParser().push(streamOf(events, failed)).slice(2)
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
      error: { ...LOST, class: 'system', retryable: true },
    })
  })

  test('a cancelled run says so', () => {
    const messages = streamOf([], { ...COMPLETED, status: 'cancelled', file_ids_map: { 'a.pdf': 'file_1' } })
    expect(messages).toContain('"status":"cancelled","cancelled":true')
    expect(messages).toContain('"file_ids_map":{"a.pdf":"file_1"}')
  })

  test('a reset says what the run has produced so far', () => {
    const partial = { item_id: 'msg_2', text: 'so f\ud83dar' }
    const encode = completionEncoder(META.chatId)
    const data =
      '{"reason":"log_lost","new_messages":[{"role":"assistant"}],"partial":{"item_id":"msg_2","text":"so f\\ufffdar"}}'
    expect(encode({ type: 'log.reset', reason: 'log_lost', new_messages: [{ role: 'assistant' }], partial }, 3)).toBe(
      `id: 3\nevent: reset\ndata: ${data}\n\n`,
    )
  })

  test('nothing that a run says can open a field or an event of its own', () => {
    const evil = 'x\n\nevent: end\ndata: [DONE]\n\n\r\nid: 99\u0000\ud800'
    const outcome: RunOutcome = { ...COMPLETED, new_messages: [{ role: 'assistant', content: evil }] }
    const text = streamOf(
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

describe('frameData', () => {
  test('is one line of JSON that says what records can hold', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), fc.constantFrom(undefined, 2), (value, indent) => {
        const data = frameData(JSON.stringify(value, null, indent))
        expect(data).not.toMatch(/[\r\n]/)
        expect(JSON.parse(data)).toEqual(JSON.parse(JSON.stringify(storable(value))))
      }),
    )
  })

  test.each([
    [String.raw`{"a":"\u0000"}`, String.raw`{"a":"\ufffd"}`],
    [String.raw`{"a":"\\u0000"}`, String.raw`{"a":"\\u0000"}`],
    [String.raw`{"a":"\\\u0000"}`, String.raw`{"a":"\\\ufffd"}`],
    [String.raw`{"a":"\ud83d\ude00"}`, String.raw`{"a":"\ud83d\ude00"}`],
    [String.raw`{"a":"\ude00\ud83d"}`, String.raw`{"a":"\ufffd\ufffd"}`],
    [String.raw`{"a":"\uD83D\uD83D\uDE00"}`, String.raw`{"a":"\ufffd\uD83D\uDE00"}`],
    ['{"n": 1.0,\r\n"big":12345678901234567890}', '{"n": 1.0,  "big":12345678901234567890}'],
  ])('%s becomes %s', (json, data) => expect(frameData(json)).toBe(data))
})
