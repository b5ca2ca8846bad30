import type { WireItem } from '@bureau/protocol'
import { expect, test } from 'vitest'
import { toViewItems, toWireItem } from './view-items.ts'

const ITEMS: readonly WireItem[] = [
  { type: 'message', role: 'user', content: 'hello' },
  {
    type: 'message',
    role: 'user',
    content: [
      { type: 'input_text', text: 'look' },
      { type: 'input_image', image_url: 'data:image/png;base64,AA==', detail: 'low' },
      { type: 'input_image', file_id: 'file-1' },
      { type: 'input_file', file_url: 'https://example.com/a.pdf' },
      { type: 'input_file', file_data: 'data:text/plain;base64,AA==', filename: 'a.txt' },
    ],
  },
  { type: 'message', role: 'system', content: 'note' },
  {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: 'hi', annotations: [] }],
  },
  { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'look', arguments: '{}', status: 'completed' },
  { type: 'function_call_output', call_id: 'call_1', output: 'seen' },
  {
    type: 'function_call_output',
    call_id: 'call_1',
    output: [{ type: 'input_image', image_url: 'https://x.example/' }],
  },
  { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'abc' },
  { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'x' } },
  { type: 'time_travel_call', id: 'tt_1', to: 1985 },
]

test.each(ITEMS)('an item that was only passed on comes back as the same object: %j', (item) => {
  const [view] = toViewItems([item])

  expect(toWireItem(view!)).toBe(item)
})

test.each(ITEMS)('a copy of its view says the same: %j', (item) => {
  const [view] = toViewItems([item])

  expect(toWireItem(structuredClone(view!))).toEqual(item)
})

test('an output names the function that was called, as that SDK wants it', () => {
  const views = toViewItems(ITEMS)

  expect(views.filter(({ type }) => type === 'function_call_result').map(({ name }) => name)).toEqual(['look', 'look'])
})
