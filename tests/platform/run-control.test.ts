import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { hold, responseFields, status, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import type { Json, TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform, testRecords } from './support/test-platform.ts'

const idsOf = (name: string, { body }: { body: { data: Record<string, unknown>[] } }): unknown[] =>
  body.data.map((each) => each[name])

describe.each(ENGINES)('runs, their chats and their members on %s', (engine) => {
  const platform = servePlatform(engine)
  const membersOf = (client: TestClient): string => `/v1/integrations/${client.integrationId}/members`

  /** A client with an active run. */
  async function withActiveRun(settings: Parameters<typeof platform.client>[0] = {}, request = {}) {
    const client = await platform.client(settings)
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['a', hold(gate), 'b'])])
    const stream = await client.complete(request)
    await stream.untilText('"delta":"a"')
    return { client, stream, gate }
  }

  test('a cancel after the turn lets the turn finish and begins no other', async () => {
    const client = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([
      toolCall('send_message', { recipient_agent: 'Clerk', message: 'Any boots?' }),
      textDeltas(['Twelve ', hold(gate), 'pairs.']),
    ])
    const before = platform.provider.modelRequests.length
    const stream = await client.complete()
    await stream.untilText('Twelve')
    const listedAs = async (...statuses: string[]): Promise<unknown[]> =>
      Promise.all(statuses.map(async (each) => idsOf('runId', await client.get(`/v1/runs?status=${each}`))))

    const whileRunning = await listedAs('running', 'queued', 'waiting', 'cancelling')
    await client.post(`/v1/runs/${stream.runId}/cancel`, { cancel_mode: 'after_turn', waitMs: 0 })
    const whileCancelling = await listedAs('cancelling', 'running', 'cancelled')
    gate.release()
    await stream.all()

    expect(whileRunning).toEqual([[stream.runId], [], [], []])
    expect(whileCancelling).toEqual([[stream.runId], [], []])
    expect(await listedAs('cancelled', 'cancelling', 'running')).toEqual([[stream.runId], [], []])
    expect(stream.result).toMatchObject({ status: 'cancelled', cancelled: true })
    expect(stream.text).toContain('pairs.')
    expect(platform.provider.modelRequests.length - before).toBe(2)
    expect((await client.get(`/v1/runs/${stream.runId}`)).body.cancel).toMatchObject({ mode: 'after_turn' })
  })

  test('a run goes on when somebody cancels it who may not see it', async () => {
    const { client, stream, gate } = await withActiveRun({}, { consumerId: 'ada' })
    const elsewhere = [await platform.addIntegration(client.ownerId)]
    const restricted = await client.post('/v1/api_keys', { name: 'elsewhere', integrationIds: elsewhere })
    const page = await client.post('/v1/consumer_tokens', {
      apiIntegrationId: client.integrationId,
      consumerId: 'bob',
      scopes: ['chat'],
    })

    for (const { body } of [restricted, page]) {
      const answer = await client.with({ token: body.token }).post(`/v1/runs/${stream.runId}/cancel`, { waitMs: 0 })
      expect([answer.status, answer.body.code]).toEqual([404, 'run_not_found'])
    }
    gate.release()
    await stream.all()

    expect(stream.result).toMatchObject({ status: 'completed', cancelled: false })
    expect((await client.get(`/v1/runs/${stream.runId}`)).body.cancel).toBeNull()
  })

  test('after a cancel the model reads of a call that was being made that its result is unknown', async () => {
    const client = await platform.client()
    platform.provider.script([
      toolCall('send_message', { recipient_agent: 'Clerk', message: 'Order boots.' }),
      textDeltas(['Ordering ', hold(platform.provider.gate())]),
      text('I do not know.'),
    ])
    const stream = await client.complete()
    await stream.untilText('Ordering')
    await client.post(`/v1/runs/${stream.runId}/cancel`)
    await stream.all()

    await client.completeWhole({ chatId: stream.chatId, message: 'Are they ordered?' })

    const input = platform.provider.modelRequests.at(-1)!.body.input as Json[]
    const outputs = input.flatMap(({ type, output }) => (type === 'function_call_output' ? [output] : []))
    expect(outputs).toEqual([expect.stringMatching(/^The result is unknown: .* it may have happened/)])
  })

  test('a cancelled run is charged to its member by what has arrived, and the records say that it is estimated', async () => {
    const client = await platform.client({ memberAllowancesEnabled: true })
    await client.post(membersOf(client), { consumerId: 'u', allowance: { tokens: 1_000 } })
    const words = Array.from({ length: 42 }, (_, each) => `word${each} `)
    platform.provider.script([textDeltas([...words, hold(platform.provider.gate()), 'more'])])
    const asked = {
      consumerId: 'u',
      usageRequestId: randomUUID(),
      message: 'It is a truth universally known. '.repeat(200),
    }
    const stream = await client.complete(asked)
    await stream.untilText('word41')

    await client.post(`/v1/runs/${stream.runId}/cancel`)
    await stream.all()
    const { body } = await client.get(`/v1/usage/records?usageRequestId=${asked.usageRequestId}`)
    const ledger = await client.get(`${membersOf(client)}/u/allowance/ledger`)
    const csv = (await client.get('/v1/usage/export?format=csv')).text
    const next = await client.completeWhole({ consumerId: 'u', usageRequestId: randomUUID(), message: 'again' })
    const later = await client.get(`${membersOf(client)}/u/allowance/ledger`)

    const marks = ledger.body.data.map((entry: Record<string, unknown>) => [entry['tokens'] === 0, entry['estimated']])
    expect(new Set(marks.map(String))).toEqual(new Set(['true,false', 'false,true']))
    expect(later.body.data.filter(({ estimated }: { estimated: boolean }) => estimated)).toHaveLength(1)
    expect(csv.split('\r\n')[0]).toMatch(/,estimated$/)
    expect(csv.split('\r\n').filter((line) => line.endsWith(',true'))).toHaveLength(1)
    expect(stream.result).toMatchObject({ cancelled: true, usage: { request_count: 1, estimated: true } })
    expect(stream.result.usage.input_tokens).toBeGreaterThan(1_000)
    expect(stream.result.usage.output_tokens).toBeGreaterThanOrEqual(42)
    expect(body.data).toMatchObject([{ usage: stream.result.usage, models: [{ usage: { estimated: true } }] }])
    expect([next.status, next.body.code]).toEqual([429, 'consumer_allowance_exhausted'])
  })

  test('a run that takes longer than its integration allows fails, and its chat is free', async () => {
    const { client, stream } = await withActiveRun({ runTimeoutSeconds: 1 })

    await stream.all()

    expect(stream.result).toMatchObject({
      status: 'failed',
      error: { code: 'run_timeout', class: 'limit', retryable: false },
    })
    platform.provider.script([text('Fine.')])
    expect((await client.completeWhole({ chatId: stream.chatId })).status).toBe(200)
  })

  test('a run whose cost cannot be recorded fails and costs nothing, and its chat is free', async () => {
    const client = await platform.client()
    await platform.rows(`ALTER TABLE usage_entries ADD CONSTRAINT refused CHECK (model <> 'gpt-refused')`)
    platform.provider.script([[text('Hi.'), responseFields({ model: 'gpt-refused' })], text('Again.')])

    const { stream } = await client.completeWhole()
    const next = await client.completeWhole({ chatId: stream.chatId })

    await platform.rows('ALTER TABLE usage_entries DROP CONSTRAINT refused')
    expect(stream.result).toMatchObject({ status: 'failed', error: { code: 'internal_error' } })
    expect((await client.get(`/v1/runs/${stream.runId}`)).body.usage).toMatchObject({ request_count: 0, total_cost: 0 })
    expect(next.stream.result.status).toBe('completed')
  })

  test('settings that change meanwhile are those of the next run', async () => {
    const { client, stream, gate } = await withActiveRun()

    await client.call('PATCH', `/v1/integrations/${client.integrationId}`, {
      textOnlyMode: true,
      defaultAgent: 'Clerk',
    })
    gate.release()
    await stream.all()
    platform.provider.script([text('Plain.')])
    const next = await client.completeWhole({ chatId: stream.chatId })

    expect(stream.result.status).toBe('completed')
    expect(next.text).toBe('Plain.')
    expect((await client.get(`/v1/runs/${next.stream.runId}`)).body.agent).toBe('Clerk')
  })

  test('an integration is not deleted under its runs unless they are to be cancelled', async () => {
    const { client, stream } = await withActiveRun()
    const path = `/v1/integrations/${client.integrationId}`

    expect((await client.call('DELETE', path)).body.code).toBe('runs_active')
    expect((await client.call('DELETE', `${path}?cancelRuns=true`)).status).toBe(204)
    await stream.all()

    expect(stream.result.status).toBe('cancelled')
    expect((await client.get(path)).body.code).toBe('integration_not_found')
  })

  test('a chat is not deleted under its run; deleted, it is nowhere, and what it cost stays', async () => {
    const { client, stream, gate } = await withActiveRun({}, { usageRequestId: 'r-1' })
    const path = `/v1/chats/${stream.chatId}`

    expect((await client.call('DELETE', path)).body.code).toBe('run_active')
    gate.release()
    await stream.all()
    expect((await client.call('DELETE', path)).status).toBe(204)

    for (const gone of [path, `${path}/messages`, `${path}/status`])
      expect((await client.get(gone)).body.code).toBe('chat_not_found')
    expect((await client.completeWhole({ chatId: stream.chatId })).body.code).toBe('chat_not_found')
    expect(idsOf('usageRequestId', await client.get('/v1/usage/records'))).toEqual(['r-1'])
  })

  test('a run says how its message began, in lists too; once its chat is deleted, it does not', async () => {
    const client = await platform.client()
    platform.provider.script([text('Seen.')])
    const message = `Where is order 7? ${'x'.repeat(300)}`
    const { stream } = await client.completeWhole({ message })
    const asked = async (): Promise<unknown[]> => [
      (await client.get(`/v1/runs/${stream.runId}`)).body.message,
      (await client.get('/v1/runs')).body.data[0].message,
    ]

    const before = await asked()
    await client.call('DELETE', `/v1/chats/${stream.chatId}`)
    const after = await asked()

    expect(before).toEqual([message.slice(0, 200), message.slice(0, 200)])
    expect(after).toEqual([null, null])
  })

  test('lists of runs, chats and members hold what was asked for', async () => {
    const client = await platform.client({ memberAllowancesEnabled: true })
    const members = membersOf(client)
    await client.post(`${members}/batch`, {
      members: [{ consumerId: 'a', allowance: { messages: 1 } }, { consumerId: 'b' }],
    })
    platform.provider.script([text('Fine.'), status(401, { message: 'no' })])
    const good = await client.completeWhole({ consumerId: 'a', usageRequestId: '1' })
    const bad = await client.completeWhole({ consumerId: 'b', usageRequestId: '2' })
    const [one, two] = [good.stream.runId, bad.stream.runId]
    const runs = async (query: string) => idsOf('runId', await client.get(`/v1/runs?${query}`))
    const at = encodeURIComponent((await client.get(`/v1/runs/${two}`)).body.createdAt)

    expect(await runs('')).toEqual([two, one])
    expect(await runs('status=completed')).toEqual([one])
    expect(await runs('status=failed')).toEqual([two])
    expect(await runs(`chatId=${good.stream.chatId}`)).toEqual([one])
    expect(await runs('consumerId=b')).toEqual([two])
    expect(await runs(`createdAfter=${at}`)).toEqual([two])
    expect(await runs(`createdBefore=${at}`)).toEqual([one])
    expect((await client.get('/v1/runs?status=done')).status).toBe(400)
    const chats = await client.get(
      `/v1/chats?updatedAfter=${encodeURIComponent('2020-01-01T01:00:00+01:00')}&consumerId=a`,
    )
    expect(idsOf('chatId', chats)).toEqual([good.stream.chatId])
    expect(idsOf('consumerId', await client.get(`${members}?exhausted=true`))).toEqual(['a'])
    expect(idsOf('consumerId', await client.get(`${members}?exhausted=false`))).toEqual(['b'])
    const { periodStart } = (await client.get(`${members}/a/allowance`)).body
    const ledger = `${members}/a/allowance/ledger?periodStart=`
    expect((await client.get(ledger + encodeURIComponent(periodStart))).body.data).toHaveLength(2)
    expect((await client.get(`${ledger}2020-01-01T00:00:00Z`)).body.data).toEqual([])
  })

  test('pages of messages and runs hold each once, in order', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Fine.'))
    const { stream } = await client.completeWhole({})
    for (let more = 0; more < 3; more++) await client.completeWhole({ chatId: stream.chatId })
    const walk = async (path: string, name: string): Promise<unknown[]> => {
      const found: unknown[] = []
      for (let cursor = ''; ;) {
        const page = await client.get(`${path}limit=3${cursor}`)
        found.push(...idsOf(name, page))
        if (!page.body.hasMore) return found
        cursor = `&cursor=${page.body.nextCursor}`
      }
    }

    expect(await walk(`/v1/chats/${stream.chatId}/messages?`, 'seq')).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    expect(await walk(`/v1/chats/${stream.chatId}/messages?order=desc&`, 'seq')).toEqual([8, 7, 6, 5, 4, 3, 2, 1])
    const runs = await walk('/v1/runs?', 'runId')
    expect(new Set(runs).size).toBe(4)
    expect(runs).toEqual((await client.get('/v1/runs?limit=100')).body.data.map((run: { runId: string }) => run.runId))
  })

  describe('a member', () => {
    const ask = (client: TestClient, fields = {}) =>
      client.completeWhole({ consumerId: 'u', usageRequestId: randomUUID(), ...fields })

    test('that is taken away is not found; its run finishes; registered again it begins anew', async () => {
      const client = await platform.client({ memberAllowancesEnabled: true })
      const [members, member] = [membersOf(client), `${membersOf(client)}/u`]
      await client.post(members, { consumerId: 'u', allowance: { messages: 1 } })
      const gate = platform.provider.gate()
      platform.provider.script([textDeltas(['a', hold(gate), 'b']), text('Again.')])
      const stream = await client.complete({ consumerId: 'u', usageRequestId: 'r-1' })
      await stream.untilText('"delta":"a"')

      expect((await client.call('DELETE', member)).status).toBe(204)
      expect((await ask(client)).body.code).toBe('member_not_found')
      gate.release()
      expect((await stream.all()).result.status).toBe('completed')
      await client.post(members, { consumerId: 'u', allowance: { messages: 1 } })

      expect((await client.get(`${member}/allowance`)).body.used).toEqual({ messages: 0, tokens: 0, costUsd: 0 })
      expect((await ask(client)).status).toBe(200)
    })

    test('with one token left that opens many chats at once has as many runs as it may have', async () => {
      const client = await platform.client({ memberAllowancesEnabled: true })
      await client.post(membersOf(client), { consumerId: 'u', allowance: { tokens: 1, maxConcurrentRuns: 3 } })
      const gate = platform.provider.gate()
      platform.provider.respond(() => textDeltas(['a', hold(gate), 'b']))

      const storm = await Promise.all(
        Array.from({ length: 30 }, () => client.complete({ consumerId: 'u', usageRequestId: randomUUID() })),
      )
      gate.release()
      const streams = await Promise.all(storm.map((stream) => stream.all()))

      const refused = streams.filter(({ response }) => response.status === 429)
      expect(refused).toHaveLength(27)
      for (const { text: body } of refused) expect(JSON.parse(body).code).toBe('consumer_concurrency_exceeded')
      expect((await ask(client)).body.code).toBe('consumer_allowance_exhausted')
    })

    test('with nothing allowed is refused at once, with no limit never', async () => {
      const client = await platform.client({ memberAllowancesEnabled: true })
      await client.post(membersOf(client), { consumerId: 'u', allowance: { messages: 0 } })
      platform.provider.respond(() => text('Fine.'))

      expect((await ask(client)).body.code).toBe('consumer_allowance_exhausted')
      await client.call('PUT', `${membersOf(client)}/u/allowance`, { messages: null, tokens: null, costUsd: null })
      expect((await ask(client)).status).toBe(200)
    })

    test('that corrections and backfills reach the period that they belong to', async () => {
      const client = await platform.client({ memberAllowancesEnabled: true })
      const allowance = `${membersOf(client)}/u/allowance`
      await client.post(membersOf(client), { consumerId: 'u', allowance: { messages: 5 } })
      const adjust = (body: object) =>
        client.post(`${allowance}/adjustments`, body, { headers: { 'idempotency-key': randomUUID() } })

      const correction = await adjust({ kind: 'correction', messages: 5, note: 'imported' })
      const backfill = await adjust({
        kind: 'backfill',
        messages: 7,
        note: 'old',
        occurredAt: '2026-01-15T00:00:00+02:00',
      })

      expect([correction.body.kind, backfill.body.periodStart]).toEqual(['correction', '2026-01-01T00:00:00.000Z'])
      expect((await client.get(allowance)).body).toMatchObject({ exhausted: true, used: { messages: 5 } })
      await adjust({ kind: 'correction', messages: -1, note: 'one too many' })
      expect((await client.get(allowance)).body).toMatchObject({ exhausted: false, remaining: { messages: 1 } })
      for (const wrong of [
        { kind: 'gift', messages: 1, note: 'x' },
        { kind: 'grant', messages: 1 },
        { kind: 'grant', messages: -1, note: 'x' },
      ]) {
        expect((await adjust(wrong)).status).toBe(400)
      }
    })
  })

  test('answers are kept by no cache and have an id', async () => {
    const client = await platform.client()

    for (const path of ['/v1/agencies', '/v1/chats', '/v1/runs/run_x']) {
      const { headers } = await client.get(path)
      expect(headers.get('cache-control')).toBe('no-store')
      expect(headers.get('x-request-id')).toMatch(/^req_/)
      expect(headers.get('ratelimit-policy')).toMatch(/^"key";q=\d+;w=60$/)
    }
  })

  testRecords(platform)
})
