import { expect, test } from 'vitest'
import { Parts, partsOf as partsOfMessages } from './parts.ts'
import type { StreamEvent } from './stream-event.ts'

const speaker = { agent: 'CEO', callerAgent: null, agent_run_id: 'stay-1' }

const delta = (type: string, item_id: string, text: string): StreamEvent => ({
  type: 'raw_response_event',
  data: { type, item_id, delta: text },
  ...speaker,
})

function partsOf(...events: StreamEvent[]): Parts {
  const parts = new Parts([])
  for (const event of events) parts.add(event)
  return parts
}

test('arguments are text while they are written', () => {
  const item = { type: 'function_call', id: 'fc-1', call_id: 'call-1', name: 'add' }
  const added: StreamEvent = {
    type: 'raw_response_event',
    data: { type: 'response.output_item.added', item },
    ...speaker,
  }
  const parts = partsOf(
    added,
    delta('response.function_call_arguments.delta', 'fc-1', '{"a"'),
    delta('response.function_call_arguments.delta', 'fc-1', ':1'),
  )

  expect(parts.all).toMatchObject([{ id: 'call-1', type: 'tool', name: 'add', input: '{"a":1', state: 'input' }])
  parts.end(null)
  expect(parts.all).toMatchObject([{ state: 'stopped' }])
})

test('thoughts and refusals are written like text', () => {
  const parts = partsOf(
    delta('response.reasoning_summary_text.delta', 'rs-1', 'Hm'),
    delta('response.reasoning_summary_text.delta', 'rs-1', '.'),
    delta('response.refusal.delta', 'msg-1', 'No.'),
  )

  expect(parts.all).toMatchObject([
    { type: 'reasoning', text: 'Hm.', state: 'streaming' },
    { type: 'text', text: 'No.', state: 'streaming' },
  ])
})

test('messages that have no id are shown once each, as servers may send them', () => {
  const message = (text: string): StreamEvent => ({
    type: 'run_item_stream_event',
    name: 'message_output_created',
    item: { raw_item: { type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] } },
    ...speaker,
  })
  const unnamed = (text: string): StreamEvent => ({
    type: 'raw_response_event',
    data: { type: 'response.output_text.delta', delta: text },
    ...speaker,
  })
  const parts = partsOf(unnamed('On'), unnamed('e'), message('One'), unnamed('Two'), message('Two'))

  expect(parts.all).toMatchObject([
    { type: 'text', text: 'One', state: 'done' },
    { type: 'text', text: 'Two', state: 'done' },
  ])
})

test.each([
  ['pending', 'pending'],
  ['authorized', 'authorized'],
  ['error:access_denied', 'failed'],
  ['timeout', 'failed'],
])('a sign-in with the status %s is %s', (status, state) => {
  const parts = partsOf(
    { type: 'oauth_redirect', state: 's', server: 'notes', auth_url: 'https://example.com/' },
    { type: 'oauth_status', state: 's', server: 'notes', status },
  )

  expect(parts.all).toMatchObject([{ type: 'sign-in', server: 'notes', url: 'https://example.com/', state }])
})

test('a reset replaces everything by what the run has produced', () => {
  const clerk = { agent: 'Clerk', callerAgent: 'CEO', parent_run_id: 'call-1' }
  const said = (text: string) => [{ type: 'output_text', text }]
  const parts = partsOf(delta('response.output_text.delta', 'msg-0', 'Lost'), {
    type: 'reset',
    new_messages: [
      { type: 'message', role: 'user', content: 'Boots?', agent: 'CEO', callerAgent: null },
      { type: 'function_call', call_id: 'call-1', name: 'send_message', arguments: '{"message":"x"}', agent: 'CEO' },
      { type: 'message', role: 'user', content: 'x', ...clerk },
      { type: 'message', id: 'msg-1', role: 'assistant', content: said('Twelve.'), ...clerk },
      { type: 'function_call_output', call_id: 'call-1', output: 'Twelve.', agent: 'CEO' },
    ],
    partial: { item_id: 'msg-2', text: 'We ha' },
  })
  parts.add(delta('response.output_text.delta', 'msg-2', 've'))

  expect(parts.all).toMatchObject([
    { type: 'agent', name: 'Clerk', agent: 'CEO', input: { message: 'x' }, output: 'Twelve.', state: 'done' },
    { type: 'text', text: 'Twelve.', agent: 'Clerk', parent: 'call-1' },
    { type: 'text', text: 'We have', agent: 'CEO', parent: null, state: 'streaming' },
  ])
})

const approval = {
  call_id: 'call-1',
  tool: 'refund',
  arguments: '{"order":7}',
  agent: 'CEO',
  agent_run_id: 'stay-1',
  expires_at: '2030-01-01T00:00:00Z',
  edit: true,
}

test('a call that waits says so until it is decided on, and a run that waits keeps it', () => {
  const parts = partsOf({ type: 'approval_requested', ...approval })
  const shown = { id: 'call-1', type: 'tool', name: 'refund', input: { order: 7 } }
  expect(parts.all).toEqual([{ ...shown, agent: 'CEO', parent: null, state: 'approval', approval }])

  parts.end([approval])
  expect(parts.all).toMatchObject([{ state: 'approval' }])
  parts.decide('call-1')
  expect(parts.all).toEqual([{ ...shown, agent: 'CEO', parent: null, state: 'running' }])
})

test('what is withdrawn is not shown, and what is written anew is', () => {
  const parts = partsOf(
    delta('response.output_text.delta', 'msg-1', 'Hel'),
    { type: 'run_resumed', attempt: 2, withdrawn: ['msg-1'] },
    delta('response.output_text.delta', 'msg-2', 'Hello'),
  )

  expect(parts.all).toMatchObject([{ id: 'msg-2', text: 'Hello' }])
})

test('what a tool sends after something was withdrawn is shown beside what it had sent before', () => {
  const sent = (name: string): StreamEvent => ({ type: 'custom', name, data: {}, ...speaker })
  const parts = partsOf(
    delta('response.output_text.delta', 'msg-1', 'Hel'),
    sent('first'),
    { type: 'run_resumed', attempt: 2, withdrawn: ['msg-1'] },
    sent('second'),
  )

  expect(parts.all).toMatchObject([{ name: 'first' }, { name: 'second' }])
})

test('a history is shown as its runs were', () => {
  const source = { agent: 'CEO', callerAgent: null }
  const parts = partsOfMessages([
    { type: 'message', role: 'user', content: 'Hi', ...source },
    { type: 'function_call', call_id: 'c', name: 'add', arguments: '{"a":1}', ...source },
    { type: 'function_call_output', call_id: 'c', output: '2', ...source },
    { type: 'message', id: 'm', role: 'assistant', content: [{ type: 'output_text', text: 'Two.' }], ...source },
  ])

  expect(parts).toMatchObject([
    { type: 'tool', id: 'c', input: { a: 1 }, output: '2', state: 'done' },
    { type: 'text', id: 'm', text: 'Two.', state: 'done' },
  ])
})

test('a message without words, as it is kept of an answer that failed at once, is nothing to show', () => {
  const message = { type: 'message', id: 'm', role: 'assistant', agent: 'CEO', callerAgent: null }

  expect(partsOfMessages([{ ...message, content: [{ type: 'output_text', text: '' }] }])).toEqual([])
  expect(partsOfMessages([{ ...message, content: [] }])).toEqual([])
})

test('a conversation of another agent belongs to the message that began it, which is kept after it', () => {
  const ceo = { agent: 'CEO', callerAgent: null }
  const clerk = { agent: 'Clerk', callerAgent: 'CEO', parent_run_id: 'c' }
  const scout = { agent: 'Scout', callerAgent: 'Clerk', parent_run_id: 'd' }
  const said = (text: string) => ({ type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] })
  const asked = (call_id: string) => ({ type: 'function_call', call_id, name: 'send_message', arguments: '{}' })
  const parts = partsOfMessages([
    { type: 'message', role: 'user', content: 'Boots?', ...ceo },
    { ...said('I ask.'), id: 'm1', ...ceo },
    { type: 'message', role: 'user', content: 'Boots?', ...clerk },
    { type: 'message', role: 'user', content: 'Where?', ...scout },
    { ...said('There.'), id: 'm2', ...scout },
    { ...asked('d'), ...clerk },
    { type: 'function_call_output', call_id: 'd', output: 'There.', ...clerk },
    { ...said('Twelve.'), id: 'm3', ...clerk },
    { ...asked('c'), ...ceo },
    { type: 'function_call_output', call_id: 'c', output: 'Twelve.', ...ceo },
    { ...said('Yes.'), id: 'm4', ...ceo },
  ])

  expect(parts).toMatchObject([
    { id: 'm1', type: 'text', parent: null },
    { id: 'c', type: 'agent', agent: 'CEO', name: 'Clerk', output: 'Twelve.', state: 'done', parent: null },
    { id: 'd', type: 'agent', agent: 'Clerk', name: 'Scout', output: 'There.', state: 'done', parent: 'c' },
    { id: 'm2', type: 'text', parent: 'd' },
    { id: 'm3', type: 'text', parent: 'c' },
    { id: 'm4', type: 'text', parent: null },
  ])
})

test('messages whose calls began each other are shown once, and end', () => {
  const call = { type: 'function_call', name: 'send_message', arguments: '{}', agent: 'CEO' }
  const parts = partsOfMessages([
    { ...call, call_id: 'a', parent_run_id: 'b' },
    { ...call, call_id: 'b', parent_run_id: 'a' },
    { ...call, call_id: 'c', parent_run_id: 'c' },
  ])

  expect(parts.map(({ id }) => id).toSorted()).toEqual(['a', 'b', 'c'])
})
