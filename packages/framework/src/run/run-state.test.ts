import { expect, test } from 'vitest'
import { advance, type ConversationEvent, newRunState, RunState } from './run-state.ts'

const USER = {
  type: 'opened',
  parent: null,
  call_id: null,
  addressed: 'A',
  caller: null,
  agent_run_id: 'stay_1',
} as const

const START = newRunState({ runId: 'run_1', agency: 'shop', traceId: 'trace_1' })

function after(...events: readonly ConversationEvent[]): RunState {
  return events.reduce((state, event) => advance(state, '0', event), START)
}

const CALLS = {
  type: 'responded',
  calls: [
    { call_id: 'c1', name: 'look', binding: 'function' },
    { call_id: 'c2', name: 'gone', binding: 'none' },
  ],
} as const

test('a state is data: it survives JSON, and its schema knows it', () => {
  const state = after(USER, { type: 'items.added', count: 3 }, { type: 'asked' }, CALLS)

  expect(RunState.parse(JSON.parse(JSON.stringify(state)))).toEqual(state)
})

test('an event changes nothing of the state before it', () => {
  const before = after(USER)
  const copy = structuredClone(before)

  advance(before, '0', { type: 'asked' })

  expect(before).toEqual(copy)
})

test('a turn asks, calls, and ends; who has called is remembered', () => {
  const called = after(USER, { type: 'asked' }, CALLS, { type: 'call.started', call_id: 'c1' })
  expect(called.conversations['0']).toMatchObject({ phase: 'calling', turns: 1, called: ['A'] })
  expect(called.conversations['0']!.calls.map(({ status }) => status)).toEqual(['started', 'pending'])

  const ended = advance(advance(called, '0', { type: 'call.ended', call_id: 'c1' }), '0', { type: 'turn.ended' })
  expect(ended.conversations['0']).toMatchObject({ phase: 'asking', turns: 1, calls: [] })
})

test('items are sent by their places, as one range while nothing is left out', () => {
  const added = (count: number): ConversationEvent => ({ type: 'items.added', count })
  const whole = after(USER, added(2), added(3))
  expect(whole.conversations['0']).toMatchObject({ items: 5, input: [[0, 5]] })

  const note = { role: 'system', content: 'note' }
  const filtered = advance(whole, '0', { type: 'input.chosen', input: [[1, 2], note] })
  expect(advance(filtered, '0', added(2)).conversations['0']!.input).toEqual([[1, 2], note, [5, 7]])
})

test('conversations are a tree, as deep as agents ask each other', () => {
  const child = (parent: string, callId: string): ConversationEvent => ({
    ...USER,
    parent,
    call_id: callId,
    addressed: 'B',
    caller: 'A',
  })
  const state = [
    ['1', child('0', 'c1')],
    ['2', child('0', 'c2')],
    ['3', child('2', 'c3')],
  ].reduce((each, [id, event]) => advance(each, id as string, event as ConversationEvent), after(USER))

  expect(Object.values(state.conversations).map(({ parent, depth }) => [parent, depth])).toEqual([
    [null, 0],
    ['0', 1],
    ['0', 1],
    ['2', 2],
  ])
})

test('another agent takes over with a stay of its own; a refused answer begins the turns anew', () => {
  const state = after(USER, { type: 'asked' }, { type: 'handed_over', agent: 'B', agent_run_id: 'stay_2' })
  expect(state.conversations['0']).toMatchObject({ addressed: 'A', agent: 'B', agent_run_id: 'stay_2', turns: 1 })

  const again = advance(state, '0', { type: 'answer.refused', agent_run_id: 'stay_3' })
  expect(again.conversations['0']).toMatchObject({ agent: 'B', agent_run_id: 'stay_3', turns: 0, refused_answers: 1 })
})

test.each<[string, readonly ConversationEvent[]]>([
  ['a conversation that was not opened', [{ type: 'asked' }]],
  ['a conversation that is open already', [USER, USER]],
  ['a call that is not there', [USER, { type: 'call.started', call_id: 'c9' }]],
])('%s is an error of ours', (_, events) => {
  expect(() => after(...events)).toThrow(/was not opened|is open already|there is no call/)
})
