import { expect, test } from 'vitest'
import type { Json } from '../support/test-server.ts'
import { Browser } from './support/browser.ts'
import { asUser, type OAuthSetUp, startOAuthSetUp } from './support/oauth-set-up.ts'

async function rpc({ server }: OAuthSetUp, user: string, method: string, params: Json): Promise<Json> {
  const headers = { 'a2a-version': '1.0', ...asUser(user) }
  return (await server.post('/a2a/solo', { jsonrpc: '2.0', id: 1, method, params }, headers)).body
}

const MESSAGE = { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'read my notes' }] } }

test('AUTH-INTASK: a task waits for its user to sign in, says where, and goes on; others do not see it', async () => {
  const setUp = await startOAuthSetUp()

  const { result } = await rpc(setUp, 'ada', 'SendMessage', MESSAGE)
  const { id, status } = result.task
  expect(status).toMatchObject({
    state: 'TASK_STATE_AUTH_REQUIRED',
    message: { role: 'ROLE_AGENT', parts: [{ text: expect.stringMatching(/^Sign in to notes: /) }, { data: {} }] },
  })
  await new Browser().signIn(status.message.parts[1].data.auth_url, 'ada@idp')
  const stream = await setUp.server.stream(
    '/a2a/solo',
    { jsonrpc: '2.0', id: 2, method: 'SubscribeToTask', params: { id } },
    { headers: { 'a2a-version': '1.0', ...asUser('ada') } },
  )
  await stream.all()

  const done = await rpc(setUp, 'ada', 'GetTask', { id })
  expect(done.result.status.state).toBe('TASK_STATE_COMPLETED')
  expect(done.result.artifacts[0].parts[0].text).toContain('Notes of ada@idp')
  expect((await rpc(setUp, 'bob', 'GetTask', { id })).error.code).toBe(-32001)
  expect((await rpc(setUp, 'bob', 'ListTasks', {})).result.tasks).toEqual([])
})
