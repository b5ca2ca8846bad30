import { expect, test } from 'vitest'
import { limitedResponse } from './limited-response.ts'

/** An answer of these chunks, limited to 100 bytes. */
function answer(type: string, chunks: readonly string[]): Response {
  const body = ReadableStream.from(chunks.map((chunk) => Buffer.from(chunk)))
  return limitedResponse(new Response(body, { status: 201, headers: { 'content-type': type } }), 100)
}

test('a body within the limit comes as it is, with status and headers', async () => {
  const response = answer('application/json', ['{"a":', '1}'])
  expect(response.status).toBe(201)
  expect(response.headers.get('content-type')).toBe('application/json')
  expect(await response.json()).toEqual({ a: 1 })
})

test('a longer body breaks off', async () => {
  const response = answer('application/json', ['x'.repeat(60), 'x'.repeat(41)])
  await expect(response.text()).rejects.toThrow(new TypeError('The server sent more than 100 bytes.'))
})

test.each(['\n\n', '\r\r', '\r\n\r\n'])(
  'an event stream may go on for ever, if its events (ended by %j) are short',
  async (end) => {
    const events = `data: ${'x'.repeat(40)}${end}`.repeat(50)
    for (const size of [1, 7, 60]) {
      const chunks = events.match(new RegExp(`[^]{1,${size}}`, 'g'))!
      expect(await answer('text/event-stream', chunks).text()).toBe(events)
    }
  },
)

test('an event of many lines breaks off like a long one', async () => {
  const lines = Array.from({ length: 30 }, () => 'data: x\n')
  await expect(answer('text/event-stream; charset=utf-8', lines).text()).rejects.toThrow(TypeError)
})

test('an answer without a body has none', async () => {
  const response = limitedResponse(new Response(null, { status: 204 }), 100)
  expect([response.status, response.body]).toEqual([204, null])
})
