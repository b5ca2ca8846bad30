import { expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { PDF, startFileServer } from '../support/file-server.ts'
import { type Json, soloAgency } from '../support/test-server.ts'
import { aguiBody, startAguiServer } from './agui.test-client.ts'

const STREAM = '/solo/get_response_stream'

test('file_urls: the files join the message, and the conversation tells where they came from', async () => {
  const files = await startFileServer({ '/a.pdf': PDF })
  const server = await startAguiServer({ agencies: soloAgency(), egress: { allow: [files.host] } })
  server.provider.script([text('Read.')])
  const messages = [
    { id: 'u0', role: 'user', content: 'hello' },
    { id: 'u1', role: 'user', content: 'read this' },
  ]

  const stream = await (
    await server.stream(STREAM, aguiBody({ messages, file_urls: { 'a.pdf': `${files.url}/a.pdf` } }))
  ).all()

  const events = stream.frames.map(({ data }) => JSON.parse(data))
  const snapshot = events.findLast(({ type }) => type === 'MESSAGES_SNAPSHOT')
  expect(snapshot.messages.map(({ role }: Json) => role)).toEqual(['user', 'system', 'user', 'assistant'])
  expect(snapshot.messages[1].content).toContain(`${files.url}/a.pdf`)
  const asked = server.provider.modelRequests[0]!.items.findLast(({ role }) => role === 'user')!['content'] as Json
  expect(asked.map(({ type }: Json) => type)).toEqual(['input_text', 'input_file'])
})

test('file_ids with no message: empty text, and the file', async () => {
  const server = await startAguiServer({ agencies: soloAgency() })
  server.provider.script([text('Read.')])
  const { id } = server.provider.files.add({ filename: 'b.pdf', content: PDF })

  const stream = await (await server.stream(STREAM, aguiBody({ messages: [], fileIds: [id] }))).all()

  expect(stream.text).toContain('RUN_FINISHED')
  const [user] = server.provider.modelRequests[0]!.items
  expect(user!['content']).toEqual([{ type: 'input_file', file_id: id }])
})

test('a file that cannot be read: RUN_STARTED, RUN_ERROR and nothing after', async () => {
  const server = await startAguiServer({ agencies: soloAgency() })

  const stream = await (await server.stream(STREAM, aguiBody({ file_urls: ['file:///etc/passwd'] }))).all()

  const events = stream.frames.map(({ data }) => JSON.parse(data))
  expect(stream.response.status).toBe(200)
  expect(events.map(({ type }) => type)).toEqual(['RUN_STARTED', 'RUN_ERROR'])
  expect(events[1]).toMatchObject({ code: 'attachment_blocked', message: expect.stringContaining('disabled') })
})

test('422 for a base_url that callers may not name', async () => {
  const server = await startAguiServer({ agencies: soloAgency() })
  const answer = await server.post(STREAM, aguiBody({ client_config: { base_url: 'http://127.0.0.1:1' } }))
  expect(answer.status).toBe(422)
  expect(answer.body.detail[0].loc).toEqual(['body', 'client_config', 'base_url'])
})
