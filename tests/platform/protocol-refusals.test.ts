import { Agency, Agent } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { pay } from '../support/conversations.ts'
import { text, toolCall } from '../support/fake-provider.ts'
import type { Json, TestClient } from './support/test-client.ts'
import { servePlatform } from './support/test-platform.ts'

describe('refusals name what the clients of a protocol can send', () => {
  const clerk = new Agent({ name: 'Clerk', instructions: 'Help.', model: 'gpt-test', tools: [pay] })
  const platform = servePlatform('pglite', { agencies: { shop: new Agency({ name: 'Shop', entryPoint: clerk }) } })

  type Ask = (owner: TestClient, conversation?: string, message?: string) => Promise<Json>

  const responses: Ask = async (owner, previous_response_id, input = 'Pay.') => {
    const body = { model: owner.integrationId, input, previous_response_id }
    return (await owner.fetch('POST', '/openai/v1/responses', body)).json()
  }
  const mcp: Ask = async (owner, thread_id, message = 'Pay.') => {
    const call = {
      name: `ask_${owner.integrationId.toLowerCase()}`,
      arguments: { message, ...(thread_id !== undefined && { thread_id }) },
    }
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: call }
    return (
      await owner.fetch('POST', '/mcp', body, { headers: { accept: 'application/json, text/event-stream' } })
    ).text()
  }
  const a2a: Ask = async (owner, contextId, text = 'Pay.') => {
    const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text }], contextId }
    const body = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }
    return (await owner.post(`/a2a/${owner.integrationId}`, body, { headers: { 'a2a-version': '1.0' } })).body
  }
  const agui: Ask = async (owner, threadId = 't', content = 'Pay.') => {
    const messages = [{ id: crypto.randomUUID(), role: 'user', content }]
    const answer = await owner.fetch('POST', `/agui/${owner.integrationId}`, { threadId, runId: 'r', messages })
    return answer.status === 200 ? answer.text() : answer.json()
  }

  const onlyRun = async (owner: TestClient): Promise<Json> => (await owner.get('/v1/runs')).body.data[0]

  test.each<[string, Ask, (run: Json) => string, string]>([
    ['Responses', responses, ({ runId }) => `resp_${runId}`, 'bureau:approval_response'],
    ['MCP', mcp, ({ chatId }) => chatId, 'leave thread_id out'],
    ['A2A', a2a, ({ chatId }) => chatId, 'CancelTask'],
    ['AG-UI', agui, ({ chatId }) => chatId, 'resume'],
  ])('%s, while the run waits for a person', async (_, ask, conversationOf, remedy) => {
    const owner = await platform.client()
    platform.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' })])
    await ask(owner)
    const run = await onlyRun(owner)

    const refused = JSON.stringify(await ask(owner, conversationOf(run)))

    expect(refused).toMatch(/run_waiting/i)
    expect(refused).toContain(remedy)
    expect(refused).toContain(run.runId)
    expect(refused).not.toContain('rejectPending')
  })

  test.each([
    ['a file, as clients of OpenAI upload them', '/openai/v1/files', new FormData(), [404, 'route_not_found']],
    ['JSON with a mistake', '/openai/v1/embeddings', '{bad', [404, 'route_not_found']],
    ['a file', '/openai/v1/models', new FormData(), [405, 'method_not_allowed']],
  ] as const)('of an address that takes nothing: %s', async (_, path, body, [status, code]) => {
    const owner = await platform.client()
    const headers = {
      authorization: `Bearer ${owner.token}`,
      ...(typeof body === 'string' && { 'content-type': 'application/json' }),
    }

    const answer = await fetch(owner.url + path, { method: 'POST', headers, body })

    expect([answer.status, await answer.json()]).toMatchObject([status, { error: { code } }])
  })

  test('the route that takes rejectPending says so', async () => {
    const owner = await platform.client()
    platform.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' })])
    await (await owner.complete({ message: 'Pay.' })).all()
    const { chatId } = await onlyRun(owner)

    const { body } = await owner.completeWhole({ chatId, message: 'Hello?' })

    expect(body).toMatchObject({ code: 'run_waiting', error: expect.stringContaining('rejectPending') })
  })

  test.each<[string, Ask, string]>([
    ['Responses', responses, 'Send user.'],
    ['MCP', mcp, 'Use a consumer token'],
    ['A2A', a2a, 'Use a consumer token'],
    ['AG-UI', agui, 'Send consumer_id.'],
  ])('%s, where the integration must know who asks', async (_, ask, remedy) => {
    const owner = await platform.client()
    await owner.call('PATCH', `/v1/integrations/${owner.integrationId}`, { memberAllowancesEnabled: true })

    const refused = JSON.stringify(await ask(owner))

    expect(refused).toMatch(/allowance_attribution_required/i)
    expect(refused).toContain(remedy)
    expect(refused).not.toMatch(/consumerId|usageRequestId/)
  })

  test.each<[string, Ask]>([
    ['Responses', responses],
    ['MCP', mcp],
    ['A2A', a2a],
    ['AG-UI', agui],
  ])('%s, for a message beyond 512 KiB, as on the platform’s own route', async (_, ask) => {
    const owner = await platform.client()

    const refused = JSON.stringify(await ask(owner, undefined, 'é'.repeat(262_145)))

    expect(refused).toContain('message: must be at most 512 KiB')
    expect(await onlyRun(owner)).toBe(undefined)
  })

  test('an Idempotency-Key that was used for another request is called by its name', async () => {
    const owner = await platform.client()
    platform.provider.respond(() => text('Yes.'))
    const ask = (content: string) =>
      owner.fetch(
        'POST',
        '/openai/v1/chat/completions',
        { model: owner.integrationId, messages: [{ role: 'user', content }] },
        { headers: { 'idempotency-key': 'k' } },
      )
    await ask('One?')

    const refused = await ask('Two?')

    expect(refused.status).toBe(422)
    const { error } = (await refused.json()) as Json
    expect(error.code).toBe('usage_request_id_reused')
    expect(error.message).toBe('The Idempotency-Key is already used by another request.')
  })
})
