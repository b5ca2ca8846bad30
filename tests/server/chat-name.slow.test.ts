import { expect, test } from 'vitest'
import { hold, text } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

test('a title that does not come holds the answer up for five seconds at most', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  const gate = server.provider.gate()
  server.provider.respond((request) =>
    request.instructions?.includes('titles')
      ? [hold(gate, { before: 'headers' }), text('Weather in Paris')]
      : text('Sunny.'),
  )
  const startedAt = performance.now()

  const answer = await server.post('/solo/get_response', { message: 'Weather?', generate_chat_name: true })

  expect(answer.status).toBe(200)
  expect(answer.body).not.toHaveProperty('chat_name')
  expect(performance.now() - startedAt).toBeLessThan(9_000)
})
