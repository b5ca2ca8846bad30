import { tool } from '@bureau/framework'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { toolCall } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

test('a turn that does not end within a minute: the cancel says so, with the messages so far, and the run goes on', async () => {
  const finish = Promise.withResolvers<string>()
  const slow = tool({
    name: 'slow',
    description: 'Takes its time.',
    parameters: z.object({}),
    execute: () => finish.promise,
  })
  const server = await startTestServer({ agencies: soloAgency({ tools: [slow] }) })
  server.provider.script([toolCall('slow')])
  const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
  await stream.untilText('tool_called')

  const cancel = { run_id: stream.runId, cancel_mode: 'after_turn' }
  const { status, body } = await server.post('/solo/cancel_response_stream', cancel)
  finish.resolve('done at last')
  await stream.all()

  expect(status).toBe(200)
  expect(body).toMatchObject({ ok: false, cancelled: false, timed_out: true, cancel_mode: 'after_turn' })
  expect(body.new_messages).toMatchObject([{ role: 'user', content: 'hi' }])
  expect(stream.result).toMatchObject({ cancelled: true })
  expect(stream.result.new_messages.at(-1).output).toBe('done at last')
  expect(stream.text).toMatch(/^: keepalive \d+$/m)
})
