import type { RunEvent } from '@bureau/protocol'
import { describe, expect, test } from 'vitest'
import type { Conversation } from './conversation.ts'
import { ResponseWatcher } from './response-watcher.ts'

const agentInControl = { name: 'Solo' }

/** What a client gets of these events. */
function shown(...events: (readonly [kind: string, json: string])[]): unknown[] {
  const emitted: RunEvent[] = []
  const run = { emit: (event: RunEvent) => void emitted.push(event), ready: () => undefined }
  const source = { agent: 'Solo', callerAgent: null, agent_run_id: 'agent_run_1' }
  // A call needs no more of its conversation before its answer is finished.
  const call = new ResponseWatcher({ run, source, agentInControl } as unknown as Conversation, 'gpt-test')
  for (const [kind, json] of events) call.onEvent(kind, json)
  return emitted.map((event) => (event.type === 'model.event' ? JSON.parse(event.json) : event))
}

const echo = { id: 'resp_1', status: 'in_progress', model: 'gpt-test', output: [], instructions: 'secret', tools: [{}] }
const visible = { id: 'resp_1', status: 'in_progress', model: 'gpt-test', output: [], error: null }

test.each([
  ['after the response', (type: string, n: number) => ({ type, response: echo, sequence_number: n })],
  ['before it', (type: string, n: number) => ({ type, sequence_number: n, response: echo })],
  ['beside other members', (type: string, n: number) => ({ type, response: echo, more: { n }, sequence_number: n })],
])('what the provider repeats of the request is never shown, with the number %s', (_, event) => {
  const created = event('response.created', 0)
  const begun = event('response.in_progress', 1)

  const events = shown(['response.created', JSON.stringify(created)], ['response.in_progress', JSON.stringify(begun)])

  expect(events).toEqual([
    { ...created, response: visible },
    { ...begun, response: visible },
  ])
})

test.each(['response.cancelled', 'other', ''])(
  'what it repeats of it in the event "%s" is not shown either',
  (type) => {
    const words = { type: 'response.output_text.done', text: '"response":{"instructions":"secret"}' }

    const events = shown(
      [type, JSON.stringify({ type, n: 1, response: echo }, null, 1)],
      [words.type, JSON.stringify(words)],
    )

    expect(events).toEqual([{ type, n: 1, response: visible }, words])
  },
)

test('a response that has changed since it was created is shown as it is now', () => {
  const created = { type: 'response.created', response: echo, sequence_number: 0 }
  const begun = { type: 'response.in_progress', response: { ...echo, model: 'gpt-other' }, sequence_number: 1 }

  const events = shown(['response.created', JSON.stringify(created)], ['response.in_progress', JSON.stringify(begun)])

  expect(events[1]).toMatchObject({ response: { ...visible, model: 'gpt-other' } })
})

describe('what the provider repeats of the agent’s last request', () => {
  const settings = { status: 'in_progress', model: 'gpt-test', output: [], instructions: 'secret', tools: [{}] }
  const response = (id: string, time: number, more: object = {}): object => ({
    id,
    object: 'response',
    created_at: time,
    ...settings,
    ...more,
  })
  const begun = (of: object): readonly [string, string] => [
    'response.created',
    JSON.stringify({ type: 'response.created', response: of, sequence_number: 0 }),
  ]
  const shownOf = (of: object): unknown => (shown(begun(of))[0] as { response: unknown }).response

  test('is shown under the id and time of the new response', () => {
    const first = shownOf(response('resp_1', 1))
    const second = shownOf(response('resp_2', 2))

    const seen = { object: 'response', status: 'in_progress', model: 'gpt-test', error: null, output: [] }
    expect(first).toEqual({ ...seen, id: 'resp_1', created_at: 1 })
    expect(second).toEqual({ ...seen, id: 'resp_2', created_at: 2 })
  })

  test('is shown as it is now where it has changed', () => {
    shownOf(response('resp_1', 1))

    expect(shownOf(response('resp_2', 2, { model: 'gpt-other' }))).toMatchObject({ id: 'resp_2', model: 'gpt-other' })
  })

  test.each([
    ['in its beginning', `"tools":[${'{"output":[],"a":1},'.repeat(60_000)}0],"usage":{}`, ''],
    ['at its end', `"output":[],${'"a":1,'.repeat(30_000)}"b":1,"usage":null`, '"a":1,'.repeat(200_000)],
  ])('takes no longer than it is long, %s', (_, first, last) => {
    const head = '"response":{"id":"resp_1","object":"response","created_at":1,'

    const [, end] = shown(
      ['response.created', `{"type":"response.created",${head}${first}}}`],
      ['response.completed', `{"type":"response.completed",${head}"output":[],${last}"usage":{}}}`],
    )

    expect(end).toMatchObject({ response: { id: 'resp_1' } })
  })

  describe('at the end of a response', () => {
    const ended = (of: object): readonly [string, string] => [
      'response.failed',
      JSON.stringify({ type: 'response.failed', response: of, sequence_number: 1 }),
    ]
    const error = { code: 'server_error', message: 'Sorry.' }

    test.each([
      ['comes again', {}, 'default'],
      ['has changed', { service_tier: 'priority' }, 'priority'],
      ['is gone', { service_tier: undefined }, undefined],
    ])('is shown as it is said there when it %s', (_, more, tier) => {
      const repeated = { service_tier: 'default', tools: [{ output: [], usage: null }], usage: null }

      const [, event] = shown(
        begun(response('resp_1', 1, repeated)),
        ended(response('resp_1', 1, { ...repeated, status: 'failed', error, ...more })),
      )

      const { response: end } = event as { response: Record<string, unknown> }
      expect(end).toMatchObject({ id: 'resp_1', status: 'failed', usage: null })
      expect([end['service_tier'], end['tools'], end['instructions']]).toEqual([tier, undefined, undefined])
    })
  })
})
