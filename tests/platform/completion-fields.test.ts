import { Agency, Agent, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { hold, status, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { FILE_ACCESS, startFileServer } from './support/file-server.ts'
import { ENGINES, servePlatform, testRecords } from './support/test-platform.ts'

const PNG =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

/** What the tool `look` was given as context, newest last. */
const contexts: unknown[] = []

function lookingAgency(): Agency {
  const look = tool({
    name: 'look',
    description: 'Looks at the context.',
    parameters: z.object({}),
    execute: (_input, { userContext }) => {
      contexts.push(userContext)
      return 'Seen.'
    },
  })
  const clerk = new Agent({ name: 'Clerk', instructions: 'Clerk.', model: 'gpt-test', tools: [look] })
  const ceo = new Agent({ name: 'CEO', instructions: 'CEO.', model: 'gpt-test', tools: [look] })
  return new Agency({ name: 'Shop', entryPoint: [ceo, clerk], flows: [[ceo, clerk]] })
}

const files = await startFileServer((request, response) => response.end(`content of ${request.url}`))

describe.each(ENGINES)('the fields of a completion on %s', (engine) => {
  const platform = servePlatform(engine, { access: FILE_ACCESS, agencies: { shop: lookingAgency() } })
  const lastInput = (): string => JSON.stringify(platform.provider.modelRequests.at(-1)!.body['input'])

  describe('user_context', () => {
    const nested = (depth: number): string => '{"a":'.repeat(depth) + '1' + '}'.repeat(depth)
    const deepText = nested(5_000)

    test.each<[string, unknown, unknown]>([
      ['an object', { tier: 'gold', list: [1, { a: null }] }, { tier: 'gold', list: [1, { a: null }] }],
      ['an empty object', {}, {}],
      ['null', null, {}],
      ['nothing', undefined, {}],
      ['text', 'gold', { value: 'gold' }],
      ['empty text', '', { value: '' }],
      ['text that is an object', '{"tier":"gold"}', { tier: 'gold' }],
      ['text that is a list', '[1]', { value: '[1]' }],
      ['text that is a number', '7', { value: '7' }],
      ['text that is null', 'null', { value: 'null' }],
      ['text that is more than one object', '{},"message":"x"', { value: '{},"message":"x"' }],
      ['text with a name twice', '{"a":1,"a":2}', { value: '{"a":1,"a":2}' }],
      ['text that is nested without end', deepText, { value: deepText }],
    ])('%s reaches the tools, and no model', async (_name, user_context, seen) => {
      const client = await platform.client()
      platform.provider.script([toolCall('look', {}), text('Fine.')])

      const { stream } = await client.completeWhole({ user_context })

      expect(stream.result.status).toBe('completed')
      expect(contexts.at(-1)).toEqual(seen)
      expect(platform.provider.modelRequests.at(-1)!.instructions).not.toContain('gold')
      expect(lastInput()).not.toContain('gold')
    })

    test('names of prototypes are data, also in text, and change no object', async () => {
      const client = await platform.client()
      const hostile = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'

      for (const context of [hostile, JSON.stringify(hostile)]) {
        platform.provider.script([toolCall('look', {}), text('Fine.')])
        await client.completeRaw(JSON.stringify(client.completion({})).replace('{', `{"user_context":${context},`))

        const seen = contexts.at(-1) as { polluted?: number }
        expect(seen.polluted).toBeUndefined()
        expect(seen.constructor).toEqual({ prototype: { polluted: 1 } })
      }
      expect(({} as { polluted?: number }).polluted).toBeUndefined()
    })

    test.each([7, true, [], ['a']])('%j is refused', async (user_context) => {
      const answer = await (await platform.client()).completeWhole({ user_context })

      expect([answer.status, answer.body.code]).toEqual([400, 'invalid_request'])
    })

    test('33 levels are refused, 32 are not', async () => {
      const client = await platform.client()
      platform.provider.script([text('Fine.')])

      const answers = [
        await client.completeWhole({ user_context: JSON.parse(nested(33)) }),
        await client.completeWhole({ user_context: JSON.parse(nested(32)) }),
      ]

      expect(answers.map(({ status: code }) => code)).toEqual([400, 200])
    })
  })

  test('agent chooses the entry point, and the integration’s default is used without it', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Fine.'))

    const named = await client.completeWhole({ agent: 'Clerk' })
    const byDefault = await client.completeWhole({ chatId: named.stream.chatId })

    expect([named.stream.meta.agent, byDefault.stream.meta.agent]).toEqual(['Clerk', 'CEO'])
    expect(platform.provider.modelRequests.at(-2)!.instructions).toContain('Clerk.')
    expect((await client.get(`/v1/runs/${named.stream.runId}`)).body.agent).toBe('Clerk')
  })

  test('null for chatId and aliasChatId is the same as nothing: a chat of its own', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Fine.'))

    const [first, second] = [
      await client.completeWhole({ chatId: null, aliasChatId: null }),
      await client.completeWhole(),
    ]

    expect(first.stream.meta).toMatchObject({ aliasChatId: null, chatId: first.stream.chatId })
    expect(second.stream.chatId).not.toBe(first.stream.chatId)
  })

  test('aliasChatId makes a chat once, is bound to an existing one, and is an own name in each integration', async () => {
    const client = await platform.client()
    const other = client.with({ integrationId: await platform.addIntegration(client.ownerId) })
    const created = await client.post('/create_new_chat', { apiIntegrationId: client.integrationId })
    platform.provider.respond(() => text('Fine.'))

    const [one, two] = [
      await client.completeWhole({ aliasChatId: 'room' }),
      await client.completeWhole({ aliasChatId: 'room' }),
    ]
    const elsewhere = await other.completeWhole({ aliasChatId: 'room' })
    const bound = await client.completeWhole({ chatId: created.body.chatId, aliasChatId: 'lobby' })
    const found = await client.completeWhole({ aliasChatId: 'lobby' })

    expect(two.stream.chatId).toBe(one.stream.chatId)
    expect(two.stream.meta.aliasChatId).toBe('room')
    expect(elsewhere.stream.chatId).not.toBe(one.stream.chatId)
    expect([bound.stream.chatId, found.stream.chatId]).toEqual([created.body.chatId, created.body.chatId])
    expect((await client.get(`/v1/chats/${created.body.chatId}/status`)).body.aliasChatId).toBe('lobby')
  })

  test('usageRequestId and consumerId appear in chat status, runs and usage records, with allowances off too', async () => {
    const client = await platform.client()
    platform.provider.script([text('Fine.')])
    const names = { usageRequestId: 'Anfrage #1 / ü', consumerId: 'not registered' }

    const { stream } = await client.completeWhole(names)

    const query = `usageRequestId=${encodeURIComponent(names.usageRequestId)}`
    const found = await client.get(`/v1/chat_status?apiIntegrationId=${client.integrationId}&${query}`)
    expect(found.body).toMatchObject(names)
    expect((await client.get(`/v1/runs/${stream.runId}`)).body).toMatchObject(names)
    expect((await client.get(`/v1/usage/records?${query}`)).body.data).toMatchObject([
      { ...names, runId: stream.runId },
    ])
  })

  test('members of the request that nobody knows are ignored', async () => {
    const client = await platform.client()
    platform.provider.script([text('Fine.')])

    expect((await client.completeWhole({ temperature: 2, ownerId: 'own_x', stream: false })).status).toBe(200)
  })

  describe('attachments', () => {
    test('detail is auto when it is not said, and a filename replaces that of the address', async () => {
      const client = await platform.client()
      platform.provider.script([text('Seen.')])

      const { stream } = await client.completeWhole({
        attachments: [
          { type: 'input_image', image_url: PNG },
          { type: 'input_file', file_url: `${files.url}/4711?sig=x`, filename: 'Bericht ü.txt' },
        ],
      })

      expect(stream.result.status).toBe('completed')
      expect(lastInput()).toContain('"detail":"auto"')
      expect(lastInput()).toContain('Bericht ü.txt')
      const history = await client.get(`/v1/chats/${stream.chatId}/messages?limit=1`)
      expect(history.body.data[0].attachments[1]).toMatchObject({ filename: 'Bericht ü.txt' })
    })

    test('five are taken, as are five sandbox files that are there', async () => {
      const client = await platform.client()
      platform.provider.script([text('Seen.')])
      const attachments = Array.from({ length: 5 }, (_, at) => ({
        type: 'input_file',
        file_url: `${files.url}/${at}.txt`,
      }))

      await client.completeWhole({ attachments })

      for (let at = 0; at < 5; at++) expect(lastInput()).toContain(`content of /${at}.txt`)
    })

    test('of a response that failed they are attached again to be sent again', async () => {
      const client = await platform.client()
      const attachments = [{ type: 'input_file', file_url: `${files.url}/again.txt` }]
      platform.provider.script([status(401, { message: 'no' }), text('Now.')])

      const failed = await client.completeWhole({ attachments })
      const { chatId } = failed.stream
      const retried = await client.completeWhole({ chatId, attachments })

      expect([failed.stream.result.status, retried.stream.result.status]).toEqual(['failed', 'completed'])
      expect(lastInput().split('content of /again.txt')).toHaveLength(2)
      const { data } = (await client.get(`/v1/chats/${chatId}/messages`)).body
      expect(data.map((message: { role: string; status: string }) => [message.role, message.status])).toEqual([
        ['user', 'ok'],
        ['assistant', 'failed'],
        ['user', 'ok'],
        ['assistant', 'ok'],
      ])
    })

    test('an inline image with the right beginning and wrong rest is no failure of ours', async () => {
      const client = await platform.client()
      const image_url = `data:image/png;base64,${Buffer.from('\x89PNG\r\n\x1a\n', 'latin1').toString('base64')}`

      const answer = await client.completeWhole({ attachments: [{ type: 'input_image', image_url }] })

      expect([answer.status, answer.body.code]).toEqual([400, 'invalid_attachment'])
    })
  })

  describe('a request that is sent again', () => {
    test('is the same whatever the order of its members, and with its files signed anew', async () => {
      const client = await platform.client()
      platform.provider.script([text('Once.')])
      const request = (sig: string) => ({
        usageRequestId: 'r-1',
        user_context: { a: 1, b: [2] },
        attachments: [{ type: 'input_file', file_url: `${files.url}/s.txt?sig=${sig}` }],
      })
      const first = await client.completeWhole(request('one'))

      const { usageRequestId, attachments } = request('two')
      const again = await client.completeWhole({ attachments, user_context: { b: [2], a: 1 }, usageRequestId })

      expect(again.headers.get('x-agent-run-replayed')).toBe('true')
      expect(again.stream.runId).toBe(first.stream.runId)
    })

    test.each([
      ['message', { message: 'Other' }],
      ['agent', { agent: 'Clerk' }],
      ['chatId', { chatId: 'chat_00000000000000000000000000' }],
      ['aliasChatId', { aliasChatId: 'room' }],
      ['consumerId', { consumerId: 'u' }],
      ['user_context', { user_context: { a: 2 } }],
      ['an attachment', { attachments: [{ type: 'input_image', image_url: PNG }] }],
      ['a sandbox file', { sandboxFiles: [{ name: 'x', path: '/app/mnt/x' }] }],
    ])('is another one with another %s: 422, which says neither true nor false', async (_name, fields) => {
      const client = await platform.client()
      platform.provider.script([text('Once.')])
      await client.completeWhole({ usageRequestId: 'r-1' })

      const answer = await client.completeWhole({ usageRequestId: 'r-1', ...fields })

      expect([answer.status, answer.body.code]).toEqual([422, 'usage_request_id_reused'])
      expect(answer.headers.has('x-agent-run-admitted')).toBe(false)
    })

    test('of a run that failed gives the failure again, and no second run', async () => {
      const client = await platform.client()
      platform.provider.script([status(401, { message: 'no' })])
      const first = await client.completeWhole({ usageRequestId: 'r-1' })

      const again = await client.completeWhole({ usageRequestId: 'r-1' })

      expect(again.headers.get('x-agent-run-admitted')).toBe('true')
      expect(again.stream.frames.slice(1)).toEqual(first.stream.frames.slice(1))
      expect((await client.get('/v1/runs')).body.data).toHaveLength(1)
    })

    test('goes on after the event that the client has seen last', async () => {
      const client = await platform.client()
      platform.provider.script([textDeltas(['One ', 'two.'])])
      const first = await client.completeWhole({ usageRequestId: 'r-1' })

      const again = await client.completeWhole({ usageRequestId: 'r-1' }, { headers: { 'last-event-id': '3' } })

      expect(again.stream.meta).toMatchObject({ resumed: true, resume_from: 3 })
      expect(again.stream.ids).toEqual(first.stream.ids.filter((id) => id > 3))
    })

    test('belongs to its integration: another one may use the same id', async () => {
      const client = await platform.client()
      const other = client.with({ integrationId: await platform.addIntegration(client.ownerId) })
      platform.provider.respond(() => text('Fine.'))

      const [one, two] = [
        await client.completeWhole({ usageRequestId: 'r-1' }),
        await other.completeWhole({ usageRequestId: 'r-1' }),
      ]

      expect(two.headers.get('x-agent-run-replayed')).toBeNull()
      expect(two.stream.runId).not.toBe(one.stream.runId)
    })

    test('is answered before the chat is found busy and the allowance used up by that very run', async () => {
      const client = await platform.client({ memberAllowancesEnabled: true })
      const members = `/v1/integrations/${client.integrationId}/members`
      await client.post(members, { consumerId: 'u', allowance: { messages: 1 } })
      const gate = platform.provider.gate()
      platform.provider.script([textDeltas(['a', hold(gate), 'b'])])
      const request = { usageRequestId: 'r-1', consumerId: 'u', aliasChatId: 'room' }
      const first = await client.complete(request)
      await first.untilText('"delta":"a"')

      const again = await client.complete(request)
      await client.call('PATCH', `${members}/u`, { status: 'inactive' })
      const inactive = await client.complete(request)
      gate.release()
      await Promise.all([first, again, inactive].map((stream) => stream.all()))

      expect([again.runId, inactive.runId]).toEqual([first.runId, first.runId])
    })
  })

  describe('cancelling', () => {
    test('touches the run that was named and no other, neither of its chat nor elsewhere', async () => {
      const client = await platform.client()
      const [gateA, gateB, gateC] = [platform.provider.gate(), platform.provider.gate(), platform.provider.gate()]
      platform.provider.script([textDeltas(['a', hold(gateA), '.']), textDeltas(['b', hold(gateB), '.'])])
      const first = await client.complete({ aliasChatId: 'one' })
      await first.untilText('"delta":"a"')
      const second = await client.complete({ aliasChatId: 'two' })
      await second.untilText('"delta":"b"')

      await client.post(`/v1/runs/${first.runId}/cancel`)
      await first.all()
      platform.provider.script([textDeltas(['c', hold(gateC), '.'])])
      const next = await client.complete({ aliasChatId: 'one' })
      await next.untilText('"delta":"c"')
      const late = await client.post(`/v1/runs/${first.runId}/cancel`)
      for (const gate of [gateA, gateB, gateC]) gate.release()
      await Promise.all([second.all(), next.all()])

      expect(first.result.status).toBe('cancelled')
      expect(late.body).toMatchObject({ ok: true, cancelled: true, run: { runId: first.runId, status: 'cancelled' } })
      expect([second.result.status, next.result.status]).toEqual(['completed', 'completed'])
    })

    test('needs no body, also when a content type is named', async () => {
      const client = await platform.client()
      platform.provider.script([text('Fine.')])
      const { stream } = await client.completeWhole()
      const headers = { 'content-type': 'application/json' }

      const answer = await client.call('POST', `/v1/runs/${stream.runId}/cancel`, '', { headers })

      expect([answer.status, answer.body.run.status]).toEqual([200, 'completed'])
    })
  })

  testRecords(platform)
})
