import { describe, expect, test } from 'vitest'
import type { AguiMessage, AguiPart } from './read-request.ts'
import { toAguiContent, toInputPart, UnusableInput } from './content-parts.ts'
import { toWireItems, unusableKinds } from './wire-messages.ts'

const call = (name: string, args: string, id = 'call_1'): AguiMessage => ({
  id: `message_of_${id}`,
  role: 'assistant',
  toolCalls: [{ id, type: 'function', function: { name, arguments: args } }],
})

describe('messages', () => {
  test('each role has its item; none carries an id', () => {
    const messages: AguiMessage[] = [
      { id: '1', role: 'system', content: 'System.' },
      { id: '2', role: 'developer', content: 'Developer.' },
      { id: '3', role: 'user', content: 'User.' },
      { ...call('add', '{"a":1}'), content: 'Let me see.' } as AguiMessage,
      { id: '5', role: 'tool', toolCallId: 'call_1', content: '3' },
      { id: '6', role: 'assistant', content: 'Three.' },
    ]
    expect(toWireItems(messages)).toEqual([
      { type: 'message', role: 'system', content: 'System.' },
      { type: 'message', role: 'system', content: 'Developer.' },
      { type: 'message', role: 'user', content: 'User.' },
      { type: 'message', role: 'assistant', content: 'Let me see.' },
      { type: 'function_call', call_id: 'call_1', name: 'add', arguments: '{"a":1}' },
      { type: 'function_call_output', call_id: 'call_1', output: '3' },
      { type: 'message', role: 'assistant', content: 'Three.' },
    ])
  })

  test('what only clients show, and what subagents said, is left out', () => {
    expect(
      toWireItems([
        { id: '1', role: 'activity', activityType: 'PLAN', content: {} },
        { id: '2', role: 'reasoning', content: 'Hm.' },
        { id: '3', role: 'assistant', content: 'Inner.', subagentRunId: 's1' },
        { id: '4', role: 'assistant', content: '' },
        { id: '5', role: 'user', content: [] },
      ]),
    ).toEqual([])
  })

  test('a tool that failed without content answers with its error', () => {
    const message: AguiMessage = { id: '1', role: 'tool', toolCallId: 'c', content: '', error: 'It broke.' }
    expect(toWireItems([message])).toMatchObject([{ output: 'It broke.' }])
  })

  test('a file search and a code interpreter call are the items that they were; their results belong to them', () => {
    const items = toWireItems([
      call('FileSearchTool', '{"queries":["x"],"results":[{"file_id":"f"}]}', 'fs_old'),
      { id: '2', role: 'tool', toolCallId: 'fs_old', content: '[]' },
      call('CodeInterpreterTool', '{"code":"1+1","container_id":"cntr_1","outputs":null}', 'ci_old'),
    ])
    expect(items).toMatchObject([
      { type: 'file_search_call', queries: ['x'], results: [{ file_id: 'f' }], status: 'completed' },
      { type: 'code_interpreter_call', code: '1+1', container_id: 'cntr_1', outputs: [] },
    ])
    expect(items[0]!.id).toMatch(/^fs_(?!old)\w{48}$/)
    expect(items[1]!.id).toMatch(/^ci_(?!old)\w{48}$/)
  })

  test('a code interpreter call whose container is unknown cannot be replayed', () => {
    expect(toWireItems([call('CodeInterpreterTool', '1+1')])).toEqual([])
  })
})

describe('content parts', () => {
  const source = (type: string, value: string, mimeType?: string): object => ({
    type,
    value,
    ...(mimeType && { mimeType }),
  })

  test.each<{ part: AguiPart; item: object }>([
    { part: { type: 'text', text: 'Hi' }, item: { type: 'input_text', text: 'Hi' } },
    {
      part: { type: 'image', source: source('url', 'https://a.test/x.png') },
      item: { type: 'input_image', image_url: 'https://a.test/x.png', detail: 'auto' },
    },
    {
      part: { type: 'image', source: source('data', 'QUJD', 'image/png') },
      item: { type: 'input_image', image_url: 'data:image/png;base64,QUJD', detail: 'auto' },
    },
    {
      part: { type: 'image', source: source('file', 'file-1') },
      item: { type: 'input_image', file_id: 'file-1', detail: 'auto' },
    },
    {
      part: { type: 'document', source: source('url', 'https://a.test/x.pdf') },
      item: { type: 'input_file', file_url: 'https://a.test/x.pdf' },
    },
    {
      part: { type: 'document', source: source('data', 'QUJD', 'application/pdf') },
      item: { type: 'input_file', filename: 'document.pdf', file_data: 'data:application/pdf;base64,QUJD' },
    },
    {
      part: { type: 'document', source: source('data', 'QUJD', 'application/pdf'), metadata: { filename: 'a.pdf' } },
      item: { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,QUJD' },
    },
    {
      part: { type: 'audio', source: source('data', 'QUJD', 'audio/wav') },
      item: { type: 'input_file', filename: 'audio.wav', file_data: 'data:audio/wav;base64,QUJD' },
    },
    { part: { type: 'video', source: source('file', 'file-2') }, item: { type: 'input_file', file_id: 'file-2' } },
    {
      part: { type: 'binary', mimeType: 'image/png', url: 'https://a.test/x.png' },
      item: { type: 'input_image', image_url: 'https://a.test/x.png', detail: 'auto' },
    },
    {
      part: { type: 'binary', mimeType: 'image/jpeg', data: 'QUJD' },
      item: { type: 'input_image', image_url: 'data:image/jpeg;base64,QUJD', detail: 'auto' },
    },
    {
      part: { type: 'binary', mimeType: 'application/pdf', data: 'QUJD', filename: 'b.pdf' },
      item: { type: 'input_file', filename: 'b.pdf', file_data: 'data:application/pdf;base64,QUJD' },
    },
    {
      part: { type: 'binary', mimeType: 'application/pdf', id: 'file-3' },
      item: { type: 'input_file', file_id: 'file-3' },
    },
  ])('$part.type, $item.type', ({ part, item }) => {
    expect(toInputPart(part)).toEqual(item)
  })

  test.each<AguiPart>([
    { type: 'text' },
    { type: 'image' },
    { type: 'image', source: { type: 'data', value: 'QUJD' } },
    { type: 'binary', mimeType: 'image/png' },
  ])('refuses %j', (part) => {
    expect(() => toInputPart(part)).toThrow(UnusableInput)
  })

  test.each<AguiPart>([
    { type: 'hologram' },
    { type: 'image', source: { type: 'ipfs', value: 'Qm1' } },
    { type: 'image', source: { type: 'file', value: 'gemini-1', provider: 'google' } },
  ])('%j is left out, and what else was said is not', (part) => {
    const said = [{ type: 'text', text: 'Look.' }, part]
    const user = { id: 'u1', role: 'user' as const, content: said }
    const result = { id: 't1', role: 'tool' as const, toolCallId: 'c1', content: [part] }

    expect(toWireItems([user, { ...user, content: [part] }, result])).toEqual([
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Look.' }] },
      { type: 'function_call_output', call_id: 'c1', output: '' },
    ])
    expect(unusableKinds([user])).toEqual([part.type])
  })

  test.each([
    { output: 'text', content: 'text' },
    { output: { a: 1 }, content: '{"a":1}' },
    { output: undefined, content: '' },
    { output: [{ type: 'input_text', text: 'x' }], content: [{ type: 'text', text: 'x' }] },
    {
      output: [{ type: 'input_file', file_id: 'file-1' }],
      content: [{ type: 'document', source: { type: 'file', value: 'file-1' } }],
    },
    {
      output: [{ type: 'input_image', image_url: 'https://a.test/x.png' }],
      content: [{ type: 'image', source: { type: 'url', value: 'https://a.test/x.png' } }],
    },
    { output: [{ type: 'other' }], content: '[{"type":"other"}]' },
  ])('a tool output $output becomes $content', ({ output, content }) => {
    expect(toAguiContent(output)).toEqual(content)
  })
})
