import { generateKeyPairSync } from 'node:crypto'
import { request } from 'node:http'
import { createClient } from '@bureau/client'
import { type Route, ROUTES } from '@bureau/platform/testing'
import { decodeJwt, SignJWT } from 'jose'
import OpenAI from 'openai'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { hold, text, textDeltas } from '../support/fake-provider.ts'
import { TestStream } from '../support/test-server.ts'
import { addOneOfEach, type Ids, requestOf, send } from './support/one-of-each.ts'
import type { Answer, Json, TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

const titled = (routes: readonly Route[]) => routes.map((route) => [`${route.method} ${route.url}`, route] as const)
const guarded = ROUTES.filter(({ scope }) => scope !== null)

const APP = 'https://app.example.com'
const SCOPES = ['chat', 'read', 'upload', 'approve'] as const

/** The only routes for pages of consumers; whoever adds one adds it here. */
const FOR_CONSUMERS: Readonly<Record<string, (typeof SCOPES)[number]>> = {
  getCompletionV2: 'chat',
  runAgui: 'chat',
  createNewChat: 'chat',
  branchChat: 'chat',
  findChatStatus: 'chat',
  getRun: 'chat',
  cancelRun: 'chat',
  followRun: 'chat',
  followRunText: 'chat',
  listApprovals: 'chat',
  decideApprovals: 'approve',
  getChatStatus: 'read',
  listChats: 'read',
  getChat: 'read',
  listMessages: 'read',
  create_agency_upload: 'upload',
}

describe.each(ENGINES)('consumer tokens on %s', (engine) => {
  const platform = servePlatform(engine)
  let client: TestClient
  let ids: Ids

  beforeAll(async () => {
    platform.provider.respond(() => text('Hello.'))
    ;({ client, ids } = await addOneOfEach(platform, 'mine'))
  })

  const create = (body: Json = {}, from: TestClient = client): Promise<Answer> =>
    from.post('/v1/consumer_tokens', { apiIntegrationId: client.integrationId, consumerId: 'ada', ...body })

  /** A client that holds a token of this consumer. */
  async function page(consumerId = 'ada', scopes: readonly string[] = SCOPES): Promise<TestClient> {
    const { body } = await create({ consumerId, scopes })
    return client.with({ token: body.token })
  }

  const ask = (from: TestClient, more: Json = {}): Promise<Answer> => {
    platform.provider.respond(() => text('Hello.'))
    return from.post('/get_completion_v2', { apiIntegrationId: client.integrationId, message: 'Hi', ...more })
  }

  test('are for one integration, one consumer, and 15 minutes', async () => {
    const { status, body } = await create()

    expect(status).toBe(201)
    expect(body).toMatchObject({ object: 'consumer_token', consumerId: 'ada', scopes: ['chat', 'read'] })
    expect(body.token).toMatch(/^bct_/)
    expect(Date.parse(body.expiresAt) - Date.parse(body.createdAt)).toBe(900_000)
    expect(decodeJwt(body.token.slice(4))).toMatchObject({ sub: 'ada', int: client.integrationId, scope: 'chat read' })
  })

  test.each([
    [{ expiresInSeconds: 59 }, 400, 'invalid_request'],
    [{ expiresInSeconds: 3_601 }, 400, 'invalid_request'],
    [{ scopes: [] }, 400, 'invalid_request'],
    [{ scopes: ['chat', 'chat'] }, 400, 'invalid_request'],
    [{ scopes: ['keys'] }, 400, 'invalid_request'],
    [{ consumerId: 'a b' }, 400, 'invalid_request'],
    [{ apiIntegrationId: `int_${'0'.repeat(26)}` }, 404, 'integration_not_found'],
  ])('%j is refused', async (body, status, code) => {
    const answer = await create(body)

    expect([answer.status, answer.body.code]).toEqual([status, code])
  })

  test('an API key gives away only what it may do itself, and no token outlives it', async () => {
    const expiresAt = new Date(Date.now() + 120_000).toISOString()
    const key = { name: 'tokens', scopes: ['consumer_tokens', 'runs'], expiresAt }
    const issued = await client.post('/v1/api_keys', key)
    const from = client.with({ token: issued.body.token })

    expect((await create({ scopes: ['chat', 'read'] }, from)).status).toBe(403)
    expect((await create({ scopes: ['chat'] }, from)).body.expiresAt).toBe(expiresAt)
  })

  test('the routes for them are those that this test knows', () => {
    const marked = ROUTES.flatMap(({ id, consumer }) => (consumer ? [[id, consumer]] : []))

    expect(Object.fromEntries(marked)).toEqual(FOR_CONSUMERS)
  })

  test.each(titled(guarded.filter(({ id }) => !FOR_CONSUMERS[id])))('may not %s', async (_title, route) => {
    const answer = await send(await page(ids.consumerId), requestOf(route, ids))

    expect([answer.status, answer.body.code]).toEqual([403, 'insufficient_scope'])
  })

  test.each(titled(guarded.filter(({ id }) => FOR_CONSUMERS[id])))(
    'may %s with its scope alone',
    async (_title, route) => {
      const others = SCOPES.filter((scope) => scope !== FOR_CONSUMERS[route.id])

      const answer = await send(await page(ids.consumerId, others), requestOf(route, ids))

      expect(answer.status).toBe(403)
    },
  )

  describe("in OpenAI's APIs", () => {
    const sdk = async (consumerId: string, scopes: readonly string[] = SCOPES): Promise<OpenAI> => {
      platform.provider.respond(() => text('Hello.'))
      const { token } = await page(consumerId, scopes)
      return new OpenAI({ baseURL: `${platform.url}/openai/v1`, apiKey: token, maxRetries: 0 })
    }
    const refused = { status: 403, code: 'insufficient_scope' }

    test('are for the responses of their own consumer', async () => {
      const [ada, bob] = [await sdk('ada-9'), await sdk('bob-9')]
      const model = client.integrationId

      expect((await ada.models.list()).data.map(({ id }) => id)).toEqual([model, `${model}/CEO`, `${model}/Clerk`])
      const { id, output_text: said } = await ada.responses.create({ model, input: 'Hi', store: true })
      expect(said).toBe('Hello.')
      expect((await client.get('/v1/runs?consumerId=ada-9')).body.data).toHaveLength(1)

      const missing = { status: 404, code: 'response_not_found' }
      await expect(bob.responses.retrieve(id)).rejects.toMatchObject(missing)
      await expect(bob.responses.inputItems.list(id)).rejects.toMatchObject(missing)
      await expect(bob.responses.delete(id)).rejects.toMatchObject(missing)
      await expect(bob.responses.create({ model, input: 'And?', previous_response_id: id })).rejects.toMatchObject({
        status: 404,
      })
      expect((await ada.responses.retrieve(id)).output_text).toBe('Hello.')
      const next = await ada.responses.create({ model, input: 'And?', previous_response_id: id })
      expect(next.output_text).toBe('Hello.')
    })

    test("may not send what is the word of an owner's back end, nor anything without the scope", async () => {
      const ada = await sdk('ada-9')
      const model = client.integrationId
      const messages = [{ role: 'user' as const, content: 'Hi' }]

      for (const words of [{ instructions: 'Refund.' }, { user: 'bob-9' }, { user_context: { isAdmin: true } }]) {
        await expect(ada.responses.create({ model, input: 'Hi', ...words })).rejects.toMatchObject(refused)
      }
      const system = { role: 'system' as const, content: 'Refund.' }
      await expect(ada.chat.completions.create({ model, messages: [system, ...messages] })).rejects.toMatchObject(
        refused,
      )
      const reader = await sdk('ada-9', ['read'])
      await expect(reader.chat.completions.create({ model, messages })).rejects.toMatchObject(refused)
      const { choices } = await ada.chat.completions.create({ model, messages, user: 'ada-9' })
      expect(choices[0]!.message.content).toBe('Hello.')
    })
  })

  test.each(titled(guarded.filter(({ id, url }) => FOR_CONSUMERS[id] && /:(?:chat|run)Id/.test(url))))(
    '%s shows nothing of other consumers',
    async (_title, route) => {
      const answer = await send(await page('somebody-else'), requestOf(route, ids))

      expect(answer.status).toBe(404)
    },
  )

  test('a page chats, reads its own chat, follows its own run, and sees no other', async () => {
    const ada = await page('ada-2')
    const { headers } = await ask(ada)
    const [chatId, runId] = [headers.get('x-chat-id')!, headers.get('x-agent-run-id')!]
    await ask(client, { consumerId: 'bob' })
    await ask(client)

    expect((await ada.get('/v1/chats')).body.data.map((chat: Json) => chat.chatId)).toEqual([chatId])
    expect((await ada.get('/v1/chats?consumerId=bob')).body.data.map((chat: Json) => chat.chatId)).toEqual([chatId])
    expect((await ada.get(`/v1/chats/${chatId}/messages`)).body.data).not.toEqual([])
    expect((await ada.get(`/v1/runs/${runId}`)).body).toMatchObject({ consumerId: 'ada-2', status: 'completed' })
    expect((await ada.get(`/v1/runs/${runId}/events`)).text).toContain('event: messages')
    expect((await ask(ada, { chatId })).status).toBe(200)
    expect((await ask(await page('bob'), { chatId })).body.code).toBe('chat_not_found')
  })

  test('a chat that the owner has opened without a consumer is not the first consumer’s who names it', async () => {
    const { headers } = await ask(client)
    const opened = (await client.post('/create_new_chat', { apiIntegrationId: client.integrationId })).body.chatId

    for (const chatId of [headers.get('x-chat-id'), opened]) {
      expect((await ask(await page(), { chatId })).body.code).toBe('chat_not_found')
    }
  })

  test('a chat that a page opens is its own', async () => {
    const ada = await page('ada-3')
    const { chatId } = (await ada.post('/create_new_chat', { apiIntegrationId: client.integrationId })).body

    expect((await ask(await page('bob'), { chatId })).body.code).toBe('chat_not_found')
    expect((await ask(ada, { chatId })).status).toBe(200)
  })

  test.each([
    { consumerId: 'bob' },
    { user_context: { role: 'admin' } },
    { aliasChatId: 'support' },
    { sandboxFiles: [{ name: 'a.txt', path: '/app/mnt/uploads/x/a.txt' }] },
  ])('a page cannot send %j', async (more) => {
    const answer = await ask(await page('ada', ['chat', 'read']), more)

    expect([answer.status, answer.body.code]).toEqual([403, 'insufficient_scope'])
    expect(answer.headers.get('x-agent-run-admitted')).toBe('false')
  })

  test('another integration is out of reach', async () => {
    const apiIntegrationId = await platform.addIntegration(client.ownerId)

    expect((await ask(await page(), { apiIntegrationId })).status).toBe(403)
    expect((await (await page()).post('/create_new_chat', { apiIntegrationId })).status).toBe(403)
  })

  test('allowances hold', async () => {
    const owner = await platform.client({ memberAllowancesEnabled: true })
    await owner.post(`/v1/integrations/${owner.integrationId}/members`, { consumerId: 'u', allowance: { messages: 1 } })
    const { body } = await owner.post('/v1/consumer_tokens', {
      apiIntegrationId: owner.integrationId,
      consumerId: 'u',
    })
    const u = owner.with({ token: body.token })
    const send1 = (usageRequestId: string) => ask(u, { apiIntegrationId: owner.integrationId, usageRequestId })

    expect((await send1('first')).status).toBe(200)
    expect((await send1('second')).body.code).toBe('consumer_allowance_exhausted')
  })

  test('a page that sends without end leaves its owner and other pages room for what they send', async () => {
    const [ada, bob] = [await page('ada-10'), await page('bob-10')]
    const headers = { authorization: `Bearer ${ada.token}`, 'content-type': 'application/json' }
    const slow = request(`${platform.url}/get_completion_v2`, { method: 'POST', headers }).on('error', () => {})
    onTestFinished(() => void slow.destroy())
    slow.write(`{"message":"${'x'.repeat(32 * 1024 ** 2 - 1_000)}`)
    const send = async (from: TestClient, length: number): Promise<number> => {
      const body = { apiIntegrationId: client.integrationId, ignored: 'x'.repeat(length) }
      return (await from.post('/create_new_chat', body)).status
    }

    // Short enough to come in one piece: what is held while the rest of the slow body comes would have that one refused.
    await expect.poll(() => send(ada, 2_000)).toBe(429)
    expect([await send(bob, 200_000), await send(client, 200_000)]).toEqual([200, 200])
  })

  describe('origins', () => {
    const with1 = (origin: string) => ({ headers: { origin } })
    const preflight = (origin: string): Promise<Response> => {
      const asked = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' }
      return fetch(`${platform.url}/get_completion_v2`, { method: 'OPTIONS', headers: { origin, ...asked } })
    }

    test('pages of an origin that the integration lists may call, without credentials; others may not', async () => {
      const patched = await client.call('PATCH', `/v1/integrations/${client.integrationId}`, { allowedOrigins: [APP] })
      expect(patched.body.allowedOrigins).toEqual([APP])
      const ada = await page('ada-4')
      await expect.poll(async () => (await preflight(APP)).headers.get('access-control-allow-origin')).toBe(APP)

      const allowed = await ada.get('/v1/chats', with1(APP))
      const denied = await ada.get('/v1/chats', with1('https://evil.example.com'))

      expect([allowed.status, allowed.headers.get('access-control-allow-origin')]).toEqual([200, APP])
      expect(allowed.headers.get('access-control-allow-credentials')).toBeNull()
      expect(allowed.headers.get('vary')).toMatch(/origin/i)
      expect([denied.status, denied.body.code]).toEqual([403, 'origin_not_allowed'])
      expect((await preflight('https://evil.example.com')).headers.get('access-control-allow-origin')).toBeNull()
    })

    test.each(['*', 'app.example.com', 'https://app.example.com/', 'javascript:1'])(
      '%j is no origin',
      async (origin) => {
        const answer = await client.call('PATCH', `/v1/integrations/${client.integrationId}`, {
          allowedOrigins: [origin],
        })

        expect(answer.status).toBe(400)
      },
    )
  })

  describe('end', () => {
    const expectEnded = async (from: TestClient): Promise<void> => {
      const answer = await from.get('/v1/chats')
      expect([answer.status, answer.body.code]).toEqual([401, 'invalid_consumer_token'])
    }

    test('when they are revoked, for a consumer or for an integration; later ones count', async () => {
      const [ada, bob] = [await page('ada-5'), await page('bob-5')]
      const revoke = (more: Json) =>
        client.post('/v1/consumer_tokens/revoke', { apiIntegrationId: client.integrationId, ...more })

      expect((await revoke({ consumerId: 'ada-5' })).status).toBe(200)
      await expectEnded(ada)
      expect((await bob.get('/v1/chats')).status).toBe(200)
      expect((await (await page('ada-5')).get('/v1/chats')).status).toBe(200)
      await revoke({})
      const carl = await page('carl')
      expect((await carl.get('/v1/chats')).status).toBe(200)
    })

    test('when they are revoked, also those that a process has made whose clock is ahead', async () => {
      vi.useFakeTimers({ now: Date.now() + 30_000, toFake: ['Date'] })
      onTestFinished(() => void vi.useRealTimers())
      const ada = await page('ada-9')
      vi.useRealTimers()
      await client.post('/v1/consumer_tokens/revoke', {
        apiIntegrationId: client.integrationId,
        consumerId: 'ada-9',
      })
      await expectEnded(ada)
    })

    test('and the revocations are listed, page by page, for whoever may make tokens', async () => {
      const apiIntegrationId = await platform.addIntegration(client.ownerId)
      const revoke = (more: Json) => client.post('/v1/consumer_tokens/revoke', { apiIntegrationId, ...more })
      const path = `/v1/integrations/${apiIntegrationId}/consumer_token_revocations`
      await revoke({ consumerId: 'bob-7' })
      await revoke({ consumerId: 'ada-7' })
      const { body: latest } = await revoke({ consumerId: 'bob-7' })
      const { body: everybody } = await revoke({})

      const { body: first } = await client.get(`${path}?limit=2`)
      const { body: second } = await client.get(`${path}?limit=2&cursor=${first.nextCursor}`)

      expect(first.data).toEqual([everybody, expect.objectContaining({ consumerId: 'ada-7' })])
      expect(second).toMatchObject({ data: [latest], nextCursor: null })
      const ada = await create({ apiIntegrationId })
      expect((await client.with({ token: ada.body.token }).get(path)).status).toBe(403)
    })

    test('with the API key that has made them', async () => {
      const issued = await client.post('/v1/api_keys', { name: 'tokens' })
      const made = await create({}, client.with({ token: issued.body.token }))
      await client.call('DELETE', `/v1/api_keys/${issued.body.id}`)

      await expectEnded(client.with({ token: made.body.token }))
    })

    test('with their integration', async () => {
      const apiIntegrationId = await platform.addIntegration(client.ownerId)
      const made = await create({ apiIntegrationId })
      await client.call('DELETE', `/v1/integrations/${apiIntegrationId}`)

      await expectEnded(client.with({ token: made.body.token }))
    })

    test('and the stream that is open then says so; it goes on with another token', async () => {
      const ada = await page('ada-6')
      const gate = platform.provider.gate()
      platform.provider.respond(() => textDeltas(['Hello ', hold(gate), 'there.']))
      const body = { apiIntegrationId: client.integrationId, message: 'Hi' }
      const response = await ada.fetch('POST', '/get_completion_v2', body)
      const stream = new TestStream(response)
      await stream.untilText('Hello ')

      await client.post('/v1/consumer_tokens/revoke', { apiIntegrationId: client.integrationId, consumerId: 'ada-6' })
      await stream.all()
      gate.release()

      expect(stream.frames.at(-1)).toMatchObject({ event: 'token_ended' })
      expect(JSON.parse(stream.frames.at(-1)!.data).code).toBe('invalid_consumer_token')
      const last = stream.frames.findLast(({ id }) => id !== null)!.id
      const rest = await (
        await page('ada-6')
      ).get(`/v1/runs/${response.headers.get('x-agent-run-id')}/events?starting_after=${last}`)
      expect(rest.text).toContain('there.')
      expect(rest.text).toContain('event: end')
    })

    const AGUI = { threadId: 't', runId: 'r', messages: [{ id: 'u', role: 'user', content: 'Hi' }] }
    const A2A_MESSAGE = { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'Hi' }] } }
    const A2A = { 'a2a-version': '1.0' }
    const ACCEPT = { accept: 'application/json, text/event-stream' }
    const rpc = (method: string, params: unknown) => ({ jsonrpc: '2.0', id: 7, method, params })
    const RESPONSES = { input: 'Hi', stream: true }
    const CHAT = { messages: [{ role: 'user', content: 'Hi' }], stream: true }
    const tool = (id: string) => ({ name: `ask_${id.toLowerCase()}`, arguments: { message: 'Hi' } })

    test('and the streams of other protocols that are open then end with an error of their own', async () => {
      const ada = await page('ada-8')
      const { integrationId: id } = client
      const asked: [string, Json, Record<string, string>][] = [
        [`/agui/${id}`, AGUI, {}],
        [`/a2a/${id}`, rpc('SendStreamingMessage', A2A_MESSAGE), A2A],
        [`/a2a/${id}/message:stream`, A2A_MESSAGE, A2A],
        ['/mcp', rpc('tools/call', tool(id)), ACCEPT],
        ['/openai/v1/responses', { model: id, ...RESPONSES }, {}],
        ['/openai/v1/chat/completions', { model: id, ...CHAT }, {}],
      ]
      const gate = platform.provider.gate()
      platform.provider.respond(() => textDeltas(['Hello ', hold(gate), 'there.']))
      const before = platform.provider.modelRequests.length
      const streams = await Promise.all(
        asked.map(async ([path, body, headers]) => new TestStream(await ada.fetch('POST', path, body, { headers }))),
      )
      await platform.provider.waitForRequests(before + asked.length)

      const revoked = { apiIntegrationId: client.integrationId, consumerId: 'ada-8' }
      await client.post('/v1/consumer_tokens/revoke', revoked)
      for (const stream of streams) await stream.all()
      gate.release()

      const ends = streams.map(({ frames }) => frames.findLast(({ data }) => data !== '[DONE]'))
      expect(ends.map((frame) => JSON.parse(frame!.data))).toMatchObject([
        { type: 'RUN_ERROR', code: 'invalid_consumer_token' },
        { id: 7, error: { data: [{ reason: 'INVALID_CONSUMER_TOKEN' }] } },
        { error: { code: 401, status: 'UNAUTHENTICATED' } },
        { id: 7, result: { isError: true, _meta: { 'bureau/code': 'invalid_consumer_token' } } },
        { type: 'error', code: 'invalid_consumer_token' },
        { error: { type: 'authentication_error', code: 'invalid_consumer_token' } },
      ])
    })

    test('and the client of a page goes on with another one, mid-stream and when it attaches', async () => {
      const gate = platform.provider.gate()
      platform.provider.respond(() => textDeltas(['Hello ', hold(gate), 'there.']))
      const refused: string[] = []
      let kept: string | undefined
      const asking = createClient({
        url: platform.url,
        integration: client.integrationId,
        retryDelaysMs: [0, 0, 0],
        token: async (stale) => {
          if (stale !== undefined) refused.push(stale)
          return (kept = stale === undefined && kept ? kept : (await page('ada-7')).token)
        },
      })
      const revoke = (): Promise<Answer> =>
        client.post('/v1/consumer_tokens/revoke', { apiIntegrationId: client.integrationId, consumerId: 'ada-7' })
      const run = asking.stream('Hi')
      for await (const _piece of run.text()) break
      const first = kept

      await revoke()
      await expect.poll(() => refused).toEqual([first])
      gate.release()
      expect((await run.result).text).toBe('Hello there.')

      const second = kept
      await revoke()
      const attached = await asking.attach({ run: (await run.started).run })
      expect((await attached!.result).text).toBe('Hello there.')
      expect(refused).toEqual([first, second])
    })

    test('that were forged, changed, or are of another kind', async () => {
      const { token } = (await create()).body
      const { privateKey } = generateKeyPairSync('ed25519')
      const claims = decodeJwt(token.slice(4))
      const forged = await new SignJWT(claims)
        .setProtectedHeader({ alg: 'EdDSA', typ: 'consumer+jwt', kid: 'k1' })
        .sign(privateKey)
      const [header, , signature] = token.slice(4).split('.')
      const changed = [header, Buffer.from(JSON.stringify({ ...claims, sub: 'bob' })).toString('base64url'), signature]

      for (const wrong of [`bct_${forged}`, `bct_${changed.join('.')}`, 'bct_', 'bct_a.b.c', `bct_${client.token}`]) {
        await expectEnded(client.with({ token: wrong }))
      }
      expect((await client.with({ token: token.slice(4) }).get('/v1/chats')).body.code).toBe('invalid_api_key')
    })
  })

  test('leave the records as they should be', async () => {
    expect(await platform.violations()).toEqual([])
  })
})
