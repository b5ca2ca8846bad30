import { setTimeout } from 'node:timers/promises'
import { Agency, Agent, tool } from '@bureau/framework'
import { beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { TEST_REDIS_URL } from '../support/test-redis.ts'
import { startCuttingProxy } from '../support/cutting-proxy.ts'
import { hold, text, textDeltas, toolCall, type Turn } from '../support/fake-provider.ts'
import type { Answer, TestClient } from './support/test-client.ts'
import { closeAfterTest, type TestStream } from '../support/test-server.ts'
import { ENGINES, servePlatform, startPlatform } from './support/test-platform.ts'

// oxlint-disable-next-line no-explicit-any -- answers are asserted on, member by member
type Json = any

const carriedOut: Json[] = []

const refund = tool({
  name: 'refund',
  description: 'Pays an order back.',
  parameters: z.object({ amount: z.number() }),
  needsApproval: { when: ({ amount }) => amount > 100, edit: true },
  execute: ({ amount }, { userContext }) => {
    carriedOut.push({ amount, ...userContext })
    return `paid ${amount} back`
  },
})

const strict = tool({
  name: 'strict',
  description: 'Deletes.',
  parameters: z.object({}),
  needsApproval: true,
  execute: () => 'deleted',
})

const look = tool({
  name: 'look',
  description: 'Looks an order up.',
  parameters: z.object({}),
  execute: () => 'order 7',
})

const ceo = new Agent({ name: 'CEO', instructions: 'Help.', model: 'gpt-test', tools: [refund, strict, look] })
const clerk = new Agent({ name: 'Clerk', instructions: 'Help.', model: 'gpt-test' })
const closer = new Agent({ name: 'Closer', instructions: 'Help.', model: 'gpt-test' })

const shop = new Agency({
  name: 'Shop',
  entryPoint: ceo,
  flows: [
    [ceo, clerk],
    [ceo, closer, 'handoff'],
  ],
})

const ada = new Agent({ name: 'Ada', instructions: 'Help.', model: 'gpt-test', tools: [refund] })
const bob = new Agent({ name: 'Bob', instructions: 'Help.', model: 'gpt-test', tools: [refund] })
const boss = new Agent({ name: 'Boss', instructions: 'Help.', model: 'gpt-test' })

const office = new Agency({
  name: 'Office',
  entryPoint: boss,
  flows: [
    [boss, ada],
    [boss, bob],
  ],
})

const namesOf = ({ frames }: TestStream): (string | null)[] => frames.map(({ event }) => event)

const call = (amount: number, callId = 'call_r'): Turn => toolCall('refund', { amount }, { callId })

/** How a run ended; it is waited for. */
async function untilEnded(client: TestClient, runId: string): Promise<Json> {
  await expect
    .poll(async () => (await client.get(`/v1/runs/${runId}`)).body.status)
    .toMatch(/completed|failed|cancelled/)
  return (await client.get(`/v1/runs/${runId}?include=output`)).body
}

describe.each(ENGINES)('on %s', (engine) => {
  const served = servePlatform(engine, { agencies: { shop, office } })
  beforeEach(() => void carriedOut.splice(0))

  /** A run that waits, and what its stream said. */
  async function waiting(script: readonly Turn[], body: object = {}) {
    const client = await served.client()
    served.provider.script(script)
    const stream = await (await client.complete({ message: 'Refund it.', ...body })).all()
    return { client, stream, runId: stream.runId, chatId: stream.chatId }
  }

  const decide = (client: TestClient, runId: string, decisions: Json) =>
    client.post(`/v1/runs/${runId}/approvals`, decisions)

  test('a run that cannot be left to wait fails, and its chat is free', async () => {
    await served.rows(`ALTER TABLE run_approvals ADD CONSTRAINT refused CHECK (call_id <> 'call_refused')`)

    const { client, stream, chatId } = await waiting([call(250, 'call_refused'), text('Again.')])
    const next = await client.completeWhole({ chatId })

    await served.rows('ALTER TABLE run_approvals DROP CONSTRAINT refused')
    expect(stream.result).toMatchObject({ status: 'failed', error: { code: 'internal_error' } })
    expect(next.stream.result.status).toBe('completed')
  })

  test('the run waits, says so everywhere, and holds its chat', async () => {
    const { client, stream, runId, chatId } = await waiting([call(250)])

    expect(namesOf(stream).slice(-3)).toEqual(['approval_requested', 'messages', 'end'])
    expect(stream.result).toMatchObject({
      status: 'waiting',
      approvals: [{ call_id: 'call_r', tool: 'refund', edit: true }],
    })
    const run = await client.get(`/v1/runs/${runId}`)
    expect([run.body.status, run.body.finishedAt]).toEqual(['waiting', null])
    const listedAs = async (status: string): Promise<Json> => (await client.get(`/v1/runs?status=${status}`)).body.data
    expect([await listedAs('waiting'), await listedAs('running')]).toMatchObject([[{ runId }], []])
    const { body } = await client.get(`/v1/runs/${runId}/approvals`)
    expect(body.approvals).toMatchObject([
      { callId: 'call_r', tool: 'refund', arguments: '{"amount":250}', agent: 'CEO', edit: true, decision: null },
    ])
    const next = await client.completeWhole({ chatId, message: 'Hello?' })
    expect(next.status).toBe(409)
    expect(next.body).toEqual({ error: expect.stringContaining('send rejectPending'), code: 'run_waiting' })
    expect(next.headers.get('x-agent-active-run-id')).toBe(runId)
    expect(carriedOut).toEqual([])
  })

  test('what it has said so far is in its last frame and in its record, and is not said twice', async () => {
    const turn = [text('Looking.'), toolCall('look', {}, { callId: 'call_l' }), call(250)].flat()
    const { client, stream, runId } = await waiting([turn])

    const record = (await client.get(`/v1/runs/${runId}?include=output`)).body
    served.provider.script([text('Done.')])
    await decide(client, runId, [{ callId: 'call_r', approve: true }])
    const run = await untilEnded(client, runId)

    const typesOf = (items: Json[]): string[] =>
      items.map(({ type, call_id: id }) => [type, id].filter(Boolean).join(' '))
    const soFar = ['message', 'function_call call_l', 'function_call call_r', 'function_call_output call_l']
    expect(typesOf(stream.result!['new_messages'] as Json[])).toEqual(soFar)
    expect(record.newMessages).toEqual(stream.result!['new_messages'])
    expect(typesOf(run.newMessages)).toEqual([...soFar, 'function_call_output call_r', 'message'])
    expect(run.newMessages.slice(0, 4)).toEqual(record.newMessages)
  })

  test('approved: the same run goes on, and its numbers too', async () => {
    const { client, stream, runId } = await waiting([call(250), text('Done.')], { user_context: { tenant: 'acme' } })

    const decided = await decide(client, runId, [{ callId: 'call_r', approve: true }])
    const run = await untilEnded(client, runId)
    const last = stream.ids.at(-1)!
    const rest = await (await client.follow(runId, `?starting_after=${last}`)).all()

    expect(decided.status).toBe(200)
    expect(decided.body.approvals[0].decision).toMatchObject({
      approve: true,
      reason: null,
      decidedBy: expect.stringMatching(/^key_/),
    })
    expect([run.status, run.outputText]).toEqual(['completed', 'Done.'])
    expect(run.newMessages.map(({ type }: Json) => type)).toEqual(['function_call', 'function_call_output', 'message'])
    expect(carriedOut).toEqual([{ amount: 250, tenant: 'acme' }])
    expect(namesOf(rest).slice(0, 2)).toEqual(['meta', 'run_resumed'])
    expect(rest.text).toContain('tool_output')
    expect(namesOf(rest).slice(-2)).toEqual(['messages', 'end'])
    expect(rest.ids).toEqual(rest.ids.toSorted((a, b) => a - b))
    expect(rest.ids[0]).toBeGreaterThan(last)
    expect(run.usage.request_count).toBe(2)
    expect(served.provider.rejected).toEqual([])
  })

  test('rejected: the model reads why; changed: it reads with what', async () => {
    const first = await waiting([call(250), text('Sorry.')])
    await decide(first.client, first.runId, [{ callId: 'call_r', approve: false, reason: 'Too much.' }])
    const rejected = await untilEnded(first.client, first.runId)
    const second = await waiting([call(250), text('Done.')])
    await decide(second.client, second.runId, [{ callId: 'call_r', approve: true, arguments: { amount: 120 } }])
    const changed = await untilEnded(second.client, second.runId)

    const outputOf = (run: Json): string =>
      run.newMessages.find(({ type }: Json) => type === 'function_call_output').output
    expect(outputOf(rejected)).toBe('Not carried out: a person rejected this call. Reason: Too much.')
    expect(outputOf(changed)).toBe('A person changed the arguments to {"amount":120}.\npaid 120 back')
    expect(carriedOut).toEqual([{ amount: 120 }])
  })

  test('what an agent has asked another one is not what the user has asked, when the run goes on', async () => {
    const errand = toolCall('send_message', {
      recipient_agent: 'Clerk',
      message: 'Is it so?',
      additional_instructions: '',
    })
    const { client, runId } = await waiting([toolCall('look'), errand, text('It is.'), call(250)])

    served.provider.script([toolCall('transfer_to_Closer'), text('Done.')])
    await decide(client, runId, [{ callId: 'call_r', approve: true }])
    const run = await untilEnded(client, runId)

    expect([run.status, run.outputText]).toEqual(['completed', 'Done.'])
    const after = served.provider.requests.at(-2)!
    const said = (after.body['input'] as Json[]).filter(({ role }) => role === 'user')
    expect(said).toHaveLength(1)
    expect(JSON.stringify(said)).toContain('Refund it.')
  })

  test('several may be decided one after the other; the run goes on with the last', async () => {
    const { client, runId } = await waiting([[call(250, 'c1'), call(300, 'c2')], text('Done.')])

    const first = await decide(client, runId, [{ callId: 'c2', approve: true }])
    expect(first.body.approvals.map(({ decision }: Json) => decision?.approve ?? null)).toEqual([null, true])
    expect((await client.get(`/v1/runs/${runId}`)).body.status).toBe('waiting')
    await decide(client, runId, [{ callId: 'c1', approve: false }])
    const run = await untilEnded(client, runId)

    expect([run.outputText, carriedOut]).toEqual(['Done.', [{ amount: 300 }]])
  })

  test('an equal second decision is 200, another one 409; of two at once one counts', async () => {
    const { client, runId } = await waiting([[call(250, 'c1'), call(300, 'c2')]])
    const both = await Promise.all([true, false].map((approve) => decide(client, runId, [{ callId: 'c1', approve }])))
    const [won] = both.filter(({ status }) => status === 200)
    const { approve } = won!.body.approvals[0].decision

    const equal = await decide(client, runId, [{ callId: 'c1', approve }])
    const other = await decide(client, runId, [{ callId: 'c1', approve: !approve }])

    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409])
    expect([equal.status, other.status, other.body.code]).toEqual([200, 409, 'approval_decided'])
  })

  test('of two agents whose models use one id, the same decision again decides about one call only', async () => {
    const client = await served.client()
    const ask = (name: string, callId: string): Turn =>
      toolCall('send_message', { recipient_agent: name, message: name, additional_instructions: '' }, { callId })
    served.provider.respond(({ lastUserText, toolOutputs }) => {
      if (lastUserText === 'Refund it.')
        return toolOutputs.length > 0 ? text('Done.') : [ask('Ada', 'c1'), ask('Bob', 'c2')]
      return toolOutputs.length > 0 ? text('Done.') : call(lastUserText === 'Ada' ? 250 : 300)
    })
    const apiIntegrationId = await served.addIntegration(client.ownerId, { agencyId: 'office', defaultAgent: 'Boss' })
    const { runId } = await (await client.complete({ apiIntegrationId, message: 'Refund it.' })).all()
    const [first, second] = (await client.get(`/v1/runs/${runId}/approvals`)).body.approvals

    await decide(client, runId, [{ callId: first.callId, approve: true }])
    await decide(client, runId, [{ callId: first.callId, approve: true }])
    const { approvals } = (await client.get(`/v1/runs/${runId}/approvals`)).body
    await decide(client, runId, [{ callId: second.callId, approve: false }])
    await untilEnded(client, runId)

    expect(approvals.map(({ decision }: Json) => decision?.approve ?? null)).toEqual([true, null])
    expect(carriedOut).toEqual([JSON.parse(first.arguments)])
  })

  test.each([
    [
      400,
      'invalid_request',
      [{ callId: 'call_s', approve: true, arguments: {} }],
      /0\/arguments: the arguments of this call cannot be changed/,
    ],
    [
      400,
      'invalid_request',
      [{ callId: 'call_r', approve: true, arguments: { amount: 'x' } }],
      /0\/arguments: .*refund.*amount/s,
    ],
    [400, 'invalid_request', [{ callId: 'call_r', approve: true, arguments: '{' }], /must be an object/],
    [
      400,
      'invalid_request',
      [{ callId: 'call_r', approve: true, arguments: `{"amount":1,"x":${'['.repeat(65)}${']'.repeat(65)}}` }],
      /must be an object/,
    ],
    [400, 'invalid_request', [], /./],
    [400, 'invalid_request', [{ callId: 'call_r' }], /approve: is missing/],
    [404, 'approval_not_found', [{ callId: 'call_x', approve: true }], /call_x/],
  ])('%i %s: %j', async (status, code, decisions, words) => {
    const { client, runId } = await waiting([[call(250), toolCall('strict', {}, { callId: 'call_s' })]])

    const refused = await decide(client, runId, decisions)

    expect([refused.status, refused.body.code]).toEqual([status, code])
    expect(refused.body.error).toMatch(words)
    expect((await client.get(`/v1/runs/${runId}`)).body.status).toBe('waiting')
  })

  test('404 for the run of another owner, 403 without the scope', async () => {
    const { client, runId } = await waiting([call(250)])
    const stranger = await served.client()
    const { body: key } = await client.post('/v1/api_keys', { name: 'weak', scopes: ['runs'] })
    const weak = client.with({ token: key.token })

    expect((await decide(stranger, runId, [{ callId: 'call_r', approve: true }])).status).toBe(404)
    expect((await stranger.get(`/v1/runs/${runId}/approvals`)).status).toBe(404)
    expect((await decide(weak, runId, [{ callId: 'call_r', approve: true }])).body.code).toBe('insufficient_scope')
    expect((await weak.get(`/v1/runs/${runId}/approvals`)).status).toBe(200)
  })

  describe('by the consumer who has asked', () => {
    /** A run of ada's page that waits for two calls, and clients that hold tokens of hers and of bob's. */
    async function asked(consumerApprovals: readonly string[], scopes = ['chat', 'read', 'approve']) {
      const client = await served.client({ consumerApprovals })
      const pageOf = async (consumerId: string): Promise<TestClient> => {
        const body = { apiIntegrationId: client.integrationId, consumerId, scopes }
        return client.with({ token: (await client.post('/v1/consumer_tokens', body)).body.token })
      }
      const [ada, bob] = [await pageOf('ada'), await pageOf('bob')]
      served.provider.script([[call(250), toolCall('strict', {}, { callId: 'call_s' })]])
      const { runId } = await (await ada.complete({ message: 'Refund it.' })).all()
      return { client, ada, bob, runId }
    }
    const codeOf = ({ status, body }: Answer): unknown[] => [status, body.code]

    test('only the tools that the integration names, also with other arguments; the rest is for API keys', async () => {
      const { client, ada, runId } = await asked(['refund'])

      const shown = (await ada.get(`/v1/runs/${runId}/approvals`)).body.approvals
      const both = await decide(ada, runId, [
        { callId: 'call_r', approve: true },
        { callId: 'call_s', approve: true },
      ])
      const own = await decide(ada, runId, [{ callId: 'call_r', approve: true, arguments: { amount: 120 } }])
      served.provider.script([text('Done.')])
      await decide(client, runId, [{ callId: 'call_s', approve: true }])
      const run = await untilEnded(ada, runId)

      expect(shown.map(({ tool, approver }: Json) => [tool, approver])).toEqual([
        ['refund', 'consumer'],
        ['strict', 'owner'],
      ])
      expect(codeOf(both)).toEqual([403, 'insufficient_scope'])
      expect(both.body.error).toContain('calls of strict')
      expect(own.body.approvals.map(({ decision }: Json) => decision?.decidedBy)).toEqual([
        `consumer:${client.integrationId}:ada`,
        undefined,
      ])
      expect([run.status, carriedOut]).toEqual(['completed', [{ amount: 120 }]])
    })

    test('nothing unless the integration names it, now and not when it was asked', async () => {
      const { client, ada, runId } = await asked([])
      const approve = () => decide(ada, runId, [{ callId: 'call_r', approve: true }])
      const allow = (consumerApprovals: string[]) =>
        client.call('PATCH', `/v1/integrations/${client.integrationId}`, { consumerApprovals })

      expect(codeOf(await approve())).toEqual([403, 'insufficient_scope'])
      expect((await allow(['refund'])).body.consumerApprovals).toEqual(['refund'])
      expect((await approve()).status).toBe(200)
      await allow([])
      expect(codeOf(await decide(ada, runId, [{ callId: 'call_s', approve: false }]))).toEqual([
        403,
        'insufficient_scope',
      ])
    })

    test('not without the scope, and not about runs of others', async () => {
      const { client, ada, bob, runId } = await asked(['refund'])
      const decisions = [{ callId: 'call_r', approve: true }]
      const body = { apiIntegrationId: client.integrationId, consumerId: 'ada', scopes: ['chat', 'read'] }
      const chatOnly = client.with({ token: (await client.post('/v1/consumer_tokens', body)).body.token })
      served.provider.script([text('Hi.')])
      const owned = await (await client.complete({ message: 'Hello.', consumerId: 'carl' })).all()

      const refused = await decide(chatOnly, runId, decisions)
      expect(codeOf(refused)).toEqual([403, 'insufficient_scope'])
      expect(refused.body.error).toContain('it needs the scope approve, and has chat, read.')
      expect((await chatOnly.get(`/v1/runs/${runId}/approvals`)).status).toBe(200)
      expect(codeOf(await bob.get(`/v1/runs/${runId}/approvals`))).toEqual([404, 'run_not_found'])
      expect(codeOf(await decide(bob, runId, decisions))).toEqual([404, 'run_not_found'])
      expect(codeOf(await decide(ada, owned.runId, decisions))).toEqual([404, 'run_not_found'])
      expect(carriedOut).toEqual([])
    })

    test('a key gives the scope away only when it may approve itself', async () => {
      const { client } = await asked(['refund'])
      const { body: key } = await client.post('/v1/api_keys', { name: 'weak', scopes: ['consumer_tokens', 'runs'] })
      const body = { apiIntegrationId: client.integrationId, consumerId: 'ada', scopes: ['approve'] }

      expect(codeOf(await client.with({ token: key.token }).post('/v1/consumer_tokens', body))).toEqual([
        403,
        'insufficient_scope',
      ])
    })

    test('the audit list and the webhook name who has decided', async () => {
      const { client, ada, runId } = await asked(['refund'])
      const decidedBy = `consumer:${client.integrationId}:ada`

      await decide(ada, runId, [{ callId: 'call_r', approve: true, arguments: { amount: 120 } }])

      const [entry] = (await client.get('/v1/audit')).body.data
      expect(entry).toMatchObject({
        actor: decidedBy,
        action: 'approval.decided',
        target: runId,
        details: { callId: 'call_r', tool: 'refund', approve: true, changed: true },
      })
      const sent = await served.rows(
        `SELECT payload FROM outbox WHERE owner_id = '${client.ownerId}' AND topic = 'run.approval_decided'`,
      )
      expect(sent).toMatchObject([{ payload: { callId: 'call_r', decidedBy } }])
    })
  })

  test('a run that waits can be cancelled; nothing can be decided about then', async () => {
    const { client, runId } = await waiting([call(250)])

    const cancelled = await client.post(`/v1/runs/${runId}/cancel`, {})
    const late = await decide(client, runId, [{ callId: 'call_r', approve: true }])

    expect(cancelled.body).toMatchObject({ ok: true, cancelled: true })
    expect([late.status, late.body.code]).toEqual([409, 'run_not_waiting'])
    expect(carriedOut).toEqual([])
  })

  test('rejectPending: the run ends, and the new message is answered', async () => {
    const { client, runId, chatId } = await waiting([call(250), text('Hello.')])

    const next = await client.completeWhole({ chatId, message: 'Never mind.', rejectPending: true })

    expect(next.stream.result).toMatchObject({ status: 'completed' })
    expect((await client.get(`/v1/runs/${runId}`)).body.status).toBe('cancelled')
    const { body } = await client.get(`/v1/runs/${runId}/approvals`)
    expect(body.approvals[0].decision).toMatchObject({
      approve: false,
      reason: 'The user has sent another message instead.',
    })
    expect(carriedOut).toEqual([])
    expect(served.provider.rejected).toEqual([])
  })

  test('rejectPending: for a message that is refused itself, the run waits on', async () => {
    const { client, runId, chatId } = await waiting([call(250)])
    const sandboxFiles = [{ name: 'gone.txt', path: '/app/mnt/uploads/gone.txt' }]

    const refused = await client.completeWhole({ chatId, rejectPending: true, sandboxFiles })

    expect([refused.status, refused.body.code]).toEqual([400, 'sandbox_file_not_found'])
    expect((await client.get(`/v1/runs/${runId}`)).body.status).toBe('waiting')
  })

  test('rejectPending: of two messages at once, one is answered, and the other gets the address of that run', async () => {
    const { client, chatId } = await waiting([call(250)])
    const gate = served.provider.gate()
    served.provider.script([textDeltas([hold(gate), 'Hello.'])])

    const answers = await Promise.all(
      ['One.', 'Two.'].map((message) => client.complete({ chatId, message, rejectPending: true })),
    )

    const [answered, refused] = answers.toSorted((a, b) => a.response.status - b.response.status)
    expect([answered!.response.status, refused!.response.status]).toEqual([200, 409])
    expect(JSON.parse((await refused!.all()).text)).toMatchObject({ code: 'run_active' })
    const { headers } = refused!.response
    expect(headers.get('x-agent-active-run-id')).toBe(answered!.runId)
    expect(headers.get('x-agent-active-run-events')).toContain(`/v1/runs/${answered!.runId}/events`)
    gate.release()
    expect((await answered!.all()).result).toMatchObject({ status: 'completed' })
  })

  test('the status of a chat is found by its alias', async () => {
    const { client, runId } = await waiting([call(250)], { aliasChatId: 'ticket-7' })
    const query = `apiIntegrationId=${client.integrationId}`

    const { body } = await client.get(`/v1/chat_status?${query}&aliasChatId=ticket-7`)
    const unknown = await client.get(`/v1/chat_status?${query}&aliasChatId=none`)
    const both = await client.get(`/v1/chat_status?${query}&aliasChatId=ticket-7&usageRequestId=x`)

    expect(body).toMatchObject({ activeRunId: runId, chatState: 'busy', run: { status: 'waiting' } })
    expect([unknown.status, both.status]).toEqual([404, 400])
  })

  test('a run that waits takes no place of its member, and its deadline stands still', async () => {
    const client = await served.client({ memberAllowancesEnabled: true })
    const allowance = { maxConcurrentRuns: 1 }
    await client.post(`/v1/integrations/${client.integrationId}/members`, { consumerId: 'ada', allowance })
    const gate = served.provider.gate()
    served.provider.script([call(250), text('Meanwhile.'), textDeltas(['Do', hold(gate), 'ne.'])])
    const ask = (usageRequestId: string) => ({ consumerId: 'ada', usageRequestId })
    const { runId, ids } = await (await client.complete(ask('r-1'))).all()
    const active = async (): Promise<Json> =>
      (await served.rows(`SELECT active_runs FROM members WHERE owner_id = '${client.ownerId}'`))[0]
    const deadline = async (): Promise<Json> =>
      (await served.rows(`SELECT deadline_at::text AS at FROM runs WHERE id = '${runId}'`))[0]

    const whileWaiting = await active()
    const before = await deadline()
    const violations = await served.violations()
    const meanwhile = await client.completeWhole(ask('r-2'))
    await setTimeout(300)
    await client.post(`/v1/runs/${runId}/approvals`, [{ callId: 'call_r', approve: true }])
    const rest = await client.follow(runId, `?starting_after=${ids.at(-1)!}`)
    await rest.untilText('"delta":"Do"')
    const refused = await client.completeWhole(ask('r-3'))
    gate.release()
    const run = await untilEnded(client, runId)
    const after = await deadline()

    expect(whileWaiting.active_runs).toBe(0)
    expect(violations).toEqual([])
    expect(meanwhile.stream.result.status).toBe('completed')
    expect(refused.body.code).toBe('consumer_concurrency_exceeded')
    expect(Date.parse(after.at) - Date.parse(before.at)).toBeGreaterThanOrEqual(300)
    expect(run.status).toBe('completed')
    expect((await active()).active_runs).toBe(0)
    expect(await served.violations()).toEqual([])
  })
})

describe.each(ENGINES)('in time on %s', (engine) => {
  const served = servePlatform(engine, { agencies: { shop }, config: { approvalMs: 1_500 } })
  beforeEach(() => void carriedOut.splice(0))

  test('a call that nobody decides about in time is rejected, and the run goes on', async () => {
    const client = await served.client()
    served.provider.script([call(250), text('Nobody answered.')])
    const { runId } = await (await client.complete()).all()
    await setTimeout(1_600)
    const late = await client.post(`/v1/runs/${runId}/approvals`, [{ callId: 'call_r', approve: true }])
    const run = await untilEnded(client, runId)

    expect(late.status).toBe(409)
    expect(['approval_expired', 'approval_decided']).toContain(late.body.code)
    expect([run.status, run.outputText]).toEqual(['completed', 'Nobody answered.'])
    expect(run.newMessages[1].output).toContain('Nobody decided in time.')
    const { body } = await client.get(`/v1/runs/${runId}/approvals`)
    expect(body.approvals[0].decision).toMatchObject({ approve: false, decidedBy: 'expiry' })
    const topics = await served.rows(`SELECT topic FROM outbox WHERE owner_id = '${client.ownerId}' ORDER BY id`)
    expect(topics.map(({ topic }) => topic)).toEqual(['run.waiting', 'run.approval_expired', 'run.completed'])
    expect(carriedOut).toEqual([])
  })
})

describe.skipIf(!ENGINES.includes('postgres'))('two processes', () => {
  beforeEach(() => void carriedOut.splice(0))

  /** @param redisUrl - How the first process reaches Redis. */
  async function startTwo(redisUrl = TEST_REDIS_URL) {
    const first = await startPlatform('postgres', { agencies: { shop }, config: { redisUrl } })
    const config = { redisUrl: TEST_REDIS_URL }
    const second = await startPlatform('postgres', { agencies: { shop }, config, beside: first.shared })
    closeAfterTest(async () => {
      await second.close()
      await first.close()
    })
    const here = await first.client()
    return { first, second, here, there: here.with({ url: second.url }) }
  }

  test.each(['lives', 'has died'])(
    'the process that asked %s: a decision at the other one is the end of waiting',
    async (fate) => {
      const { first, second, here, there } = await startTwo()
      let asked = 0
      for (const { provider } of [first, second]) provider.respond(() => (asked++ === 0 ? call(250) : text('Done.')))
      const { runId, ids } = await (await here.complete()).all()
      if (fate === 'has died') {
        await first.rows(`UPDATE replicas SET state = 'dead' WHERE boot_id = '${first.platform.replica.bootId}'`)
        await second.platform.replica.sweep()
      }

      const decided = await there.post(`/v1/runs/${runId}/approvals`, [{ callId: 'call_r', approve: true }])
      const run = await untilEnded(there, runId)
      const rest = await (await there.follow(runId, `?starting_after=${ids.at(-1)}`)).all()

      expect(decided.status).toBe(200)
      expect([run.status, run.outputText]).toEqual(['completed', 'Done.'])
      expect(carriedOut).toEqual([{ amount: 250 }])
      expect(rest.result).toMatchObject({ status: 'completed' })
      expect(rest.ids[0]).toBeGreaterThan(ids.at(-1)!)
      expect(await first.violations()).toEqual([])
    },
  )

  test('a page that comes while a run waits gets its whole stream and its end at once, at each process', async () => {
    const { first, here, there } = await startTwo()
    first.provider.script([call(250)])
    const stream = await (await here.complete()).all()

    const pages = await Promise.all([here, there].map(async (page) => (await page.follow(stream.runId)).all()))
    const everything = `?starting_after=${stream.ids.at(-1)}`
    const again = await Promise.all([here, there].map((page) => page.follow(stream.runId, everything)))

    for (const { frames } of pages) expect(frames.slice(1)).toEqual(stream.frames.slice(1))
    expect(again.map(({ response }) => response.status)).toEqual([204, 204])
  })

  test('a run waits, and Redis is silent before anybody is notified: its pages get their end by the record', async () => {
    const redis = await startCuttingProxy(TEST_REDIS_URL)
    const { first, here, there } = await startTwo(redis.url)
    const gate = first.provider.gate()
    first.provider.script([[textDeltas(['One ', hold(gate), 'two.']), call(250)]])
    const stream = await here.complete()
    const page = await there.follow(stream.runId)
    await Promise.all([stream, page].map((each) => each.untilText('One')))

    redis.swallow()
    gate.release()
    await Promise.all([stream.all(), page.all()])

    for (const { frames, result } of [stream, page]) {
      expect(frames.slice(-2).map(({ event }) => event)).toEqual(['messages', 'end'])
      expect(result).toMatchObject({ status: 'waiting', approvals: [{ call_id: 'call_r' }] })
    }
    redis.breakAll()
  })
})
