import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { stall, text } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

beforeEach(
  () =>
    void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] }),
)
afterEach(() => void vi.useRealTimers())

test.each([
  ['the plain stream', false, { message: 'hi' }],
  ['AG-UI', true, { threadId: 't', runId: 'r', messages: [{ id: 'u', role: 'user', content: 'hi' }] }],
])('a model that is silent: %s stays open with a comment every fifteen seconds', async (_, enableAgui, body) => {
  const server = await startTestServer({ agencies: soloAgency(), enableAgui })
  server.provider.script([[stall(), text('never')]])
  const stream = await server.stream('/solo/get_response_stream', body)
  await stream.untilText('response.in_progress') // the last that the model said

  await vi.advanceTimersByTimeAsync(14_000)
  expect(stream.text).not.toContain(': keepalive')
  await vi.advanceTimersByTimeAsync(2_000)
  await stream.untilComment()

  await stream.hangUp()
})
