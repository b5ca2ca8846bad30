import { tool } from '@bureau/framework'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { hold, text, toolCall } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

test('200 interleaved requests with their own context, instructions and history never see each other', async () => {
  const whoami = tool({
    name: 'whoami',
    description: 'Tells the user.',
    parameters: z.object({}),
    execute: (_, { userContext }) => `user ${String(userContext['user'])}`,
  })
  const server = await startTestServer({ agencies: soloAgency({ tools: [whoami] }) })
  server.provider.respond((request) => {
    const [output] = request.toolOutputs
    if (!output) return toolCall('whoami')
    return text(`${output.output} | ${request.instructions.split('\n').at(-1)} | ${request.items.length} items`)
  })

  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, n) =>
      server.post('/solo/get_response', {
        message: `message ${n}`,
        user_context: { user: n },
        additional_instructions: `instruction ${n}`,
        chat_history: Array.from({ length: n % 3 }, () => ({ role: 'user', content: `earlier ${n}` })),
      }),
    ),
  )

  answers.forEach(({ body }, n) => expect(body.response).toBe(`user ${n} | instruction ${n} | ${(n % 3) + 3} items`))
})

test('no request waits for another, whatever it overrides', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  const gate = server.provider.gate()
  server.provider.respond((request) =>
    request.lastUserText === 'slow' ? [hold(gate, { before: 'headers' }), text('slow')] : text('fast'),
  )
  const override = { api_key: 'sk-mine', model: 'gpt-other' }
  const slow = server.post('/solo/get_response', { message: 'slow', client_config: override })
  await server.provider.waitForRequests(1)

  expect((await server.post('/solo/get_response', { message: 'quick', client_config: override })).body.response).toBe(
    'fast',
  )

  gate.release()
  expect((await slow).body.response).toBe('slow')
})

test('what a tool writes into the context stays in its run', async () => {
  const remember = tool({
    name: 'remember',
    description: 'Remembers.',
    parameters: z.object({}),
    execute: (_, { userContext }) => {
      const before = String(userContext['seen'])
      userContext['seen'] = 'yes'
      return before
    },
  })
  const server = await startTestServer({ agencies: soloAgency({ tools: [remember] }) })
  server.provider.respond((request) =>
    request.toolOutputs.length === 2
      ? text(request.toolOutputs.map(({ output }) => output).join())
      : toolCall('remember'),
  )

  const answers = [
    await server.post('/solo/get_response', { message: 'a' }),
    await server.post('/solo/get_response', { message: 'b' }),
  ]

  expect(answers.map(({ body }) => body.response)).toEqual(['undefined,yes', 'undefined,yes'])
})
