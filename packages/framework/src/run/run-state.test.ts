import { expect, test } from 'vitest'
import { advance, type ConversationEvent } from './advance-run.ts'
import { interrupted, isAtRest, newRunState, RunState, withGiven } from './run-state.ts'

const USER = {
  type: 'opened',
  parent: null,
  call_id: null,
  addressed: 'A',
  caller: null,
  agent_run_id: 'stay_1',
  opened_at: 0,
} as const

const START = newRunState({ runId: 'run_1', agency: 'shop', traceId: 'trace_1' })

function after(...events: readonly ConversationEvent[]): RunState {
  return events.reduce((state, event) => advance(state, '0', event), START)
}

const CALLS = {
  type: 'responded',
  calls: [
    { call_id: 'c1', name: 'look', binding: 'function', repeatable: false },
    { call_id: 'c2', name: 'gone', binding: 'none', repeatable: false },
  ],
  turn: [{ item: { type: 'function_call', call_id: 'c1' }, timestamp: 1 }],
} as const

test('a state is data: it survives JSON, and its schema knows it', () => {
  const state = after(USER, { type: 'items.given', count: 3 }, { type: 'asked' }, CALLS)

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

  const ended = advance(advance(called, '0', { type: 'call.ended', call_id: 'c1', status: 'done' }), '0', {
    type: 'turn.ended',
  })
  expect(ended.conversations['0']).toMatchObject({ phase: 'asking', turns: 1, calls: [] })
})

test('items are sent by their places, as one range while nothing is left out', () => {
  const stored = (at: number, count: number): ConversationEvent => ({ type: 'items.stored', at, count })
  const whole = after(USER, { type: 'items.given', count: 2 }, stored(0, 3))
  expect(whole.conversations['0']).toMatchObject({ items: 5, input: [[0, 5]], given: 2, stored: [[0, 3]] })

  const note = { role: 'system', content: 'note' }
  const filtered = advance(whole, '0', { type: 'input.chosen', input: [[1, 2], note] })
  expect(advance(filtered, '0', stored(7, 2)).conversations['0']).toMatchObject({
    input: [[1, 2], note, [5, 7]],
    stored: [
      [0, 3],
      [7, 9],
    ],
  })
})

test('a history that has lost its oldest items meanwhile moves the places of all others', () => {
  const before = after(
    USER,
    { type: 'items.given', count: 5 },
    { type: 'begun' },
    { type: 'items.stored', at: 0, count: 2 },
  )
  const chosen = advance(before, '0', {
    type: 'input.chosen',
    input: [
      [1, 2],
      [4, 7],
    ],
  })

  expect(withGiven(before.conversations['0']!, 3)).toMatchObject({ given: 3, begun: 3, items: 5, input: [[0, 5]] })
  expect(withGiven(chosen.conversations['0']!, 3).input).toEqual([[2, 5]])
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

test('what a model was asked in the process before does not count as a turn', () => {
  const asking = after(USER, { type: 'asked' })
  expect(interrupted(asking).conversations['0']).toMatchObject({ turns: 0, requested: false })

  const called = after(USER, { type: 'asked' }, CALLS)
  expect(interrupted(called).conversations['0']).toMatchObject({ turns: 1, requested: false })
})

test('a conversation is forgotten with all below it when the call that has opened it has its output', () => {
  const child = { ...USER, parent: '0', call_id: 'c1', addressed: 'B', caller: 'A' }
  const below = { ...child, parent: '1', call_id: 'c9' }
  const opened = advance(advance(after(USER, { type: 'asked' }, CALLS), '1', child), '2', below)

  const ended = advance(opened, '0', { type: 'call.ended', call_id: 'c1', status: 'done' })

  expect(Object.keys(ended.conversations)).toEqual(['0'])
  expect(ended.opened).toBe(3)
})

test('a run can go on elsewhere when no call is half done that may not be made again', () => {
  const called = after(USER, { type: 'asked' }, CALLS)
  expect(isAtRest(called)).toBe(true)

  const started = advance(called, '0', { type: 'call.started', call_id: 'c1' })
  expect(isAtRest(started)).toBe(false)
  expect(isAtRest(advance(started, '0', { type: 'call.ended', call_id: 'c1', status: 'done' }))).toBe(true)
})
