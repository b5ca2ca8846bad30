import { describe, expect, test } from 'vitest'
import { status, text } from '../support/fake-provider.ts'
import { FILE_ACCESS, startFileServer } from './support/file-server.ts'
import type { Answer, Json, TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
/** The signature that has expired. */
let expired = ''
const files = await startFileServer((request, response) => {
  const url = new URL(request.url ?? '/', 'https://files.example.com')
  if (url.searchParams.get('sig') === expired) return void response.writeHead(403).end('expired')
  response.end(`content of ${url.pathname}`)
})

describe.each(ENGINES)('POST /v1/chats/{chatId}/branches on %s', (engine) => {
  const platform = servePlatform(engine, { access: FILE_ACCESS })
  const lastInput = (): string => JSON.stringify(platform.provider.modelRequests.at(-1)!.body['input'])

  const branch = (client: TestClient, chatId: string, body: Json): Promise<Answer> =>
    client.post(`/v1/chats/${chatId}/branches`, body)

  /** A chat in which these were said, each answered with `Answer to <message>`; the runs in order. */
  async function chatOf(client: TestClient, said: readonly string[], more: Json = {}) {
    platform.provider.respond(() => text(`Answer to ${said[runs.length]}`))
    const runs: string[] = []
    let chatId: string | undefined
    for (const message of said) {
      const { stream } = await client.completeWhole({ message, ...(chatId && { chatId }), ...more })
      chatId = stream.chatId
      runs.push(stream.runId)
    }
    return { chatId: chatId!, runs }
  }

  const messagesOf = async (client: TestClient, chatId: string): Promise<Json[]> =>
    (await client.get(`/v1/chats/${chatId}/messages`)).body.data

  test('201 with what was said before that message: agents go on from there, and the old chat stays', async () => {
    const client = await platform.client()
    const { chatId, runs } = await chatOf(client, ['One', 'Two', 'Three'])
    await client.call('PATCH', `/v1/chats/${chatId}`, { title: 'Orders' })
    const before = await messagesOf(client, chatId)

    const made = await branch(client, chatId, { beforeRunId: runs[1], aliasChatId: 'again' })
    const copies = await messagesOf(client, made.body.chatId)
    await client.completeWhole({ aliasChatId: 'again', message: 'Two, better' })

    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({
      object: 'chat',
      aliasChatId: 'again',
      title: 'Orders',
      messageCount: 2,
      chatState: 'idle',
      lastRunId: null,
    })
    expect(copies).toEqual(before.slice(0, 2).map((message) => ({ ...message, id: expect.any(String) })))
    expect(copies[0].id).not.toBe(before[0].id)
    for (const [words, isSent] of [
      ['Answer to One', true],
      ['Two, better', true],
      ['Answer to Two', false],
      ['Three', false],
    ] as const) {
      expect(lastInput().includes(words)).toBe(isSent)
    }
    expect(await messagesOf(client, chatId)).toEqual(before)
    expect((await client.get(`/v1/chats/${made.body.chatId}`)).body.messageCount).toBe(4)
  })

  test('a run shows what it said once, however many branches hold copies of it', async () => {
    const client = await platform.client()
    const { chatId, runs } = await chatOf(client, ['One', 'Two'])
    await branch(client, chatId, { beforeRunId: runs[1] })
    await branch(client, chatId, { beforeRunId: runs[1] })

    const run = (await client.get(`/v1/runs/${runs[0]}?include=output`)).body

    expect(run.newMessages).toHaveLength(1)
    expect((await client.get('/v1/runs')).body.data).toHaveLength(2)
    expect(await platform.violations()).toEqual([])
  })

  test('a branch has branches, and remains when its chat is deleted', async () => {
    const client = await platform.client()
    const { chatId, runs } = await chatOf(client, ['One', 'Two', 'Three'])

    const first = (await branch(client, chatId, { beforeRunId: runs[2] })).body
    const second = (await branch(client, first.chatId, { beforeRunId: runs[1] })).body
    await client.call('DELETE', `/v1/chats/${chatId}`)

    expect([first.messageCount, second.messageCount]).toEqual([4, 2])
    expect(await messagesOf(client, first.chatId)).toHaveLength(4)
  })

  test('before the first message of a chat nothing was said', async () => {
    const client = await platform.client()
    const { chatId, runs } = await chatOf(client, ['One'])

    const made = await branch(client, chatId, { beforeRunId: runs[0] })

    expect([made.status, made.body.messageCount]).toEqual([201, 0])
  })

  test('files and pictures of earlier messages reach the model; what failed stays a failure', async () => {
    const client = await platform.client()
    const attachments = [
      { type: 'input_file', file_url: `${files.url}/plan.txt?sig=canary` },
      { type: 'input_image', image_url: `data:image/png;base64,${PNG}` },
    ]
    platform.provider.script([text('Seen.'), status(401, { message: 'no' }), text('Later.'), text('Again.')])
    const { chatId } = (await client.completeWhole({ attachments })).stream
    await client.completeWhole({ chatId, message: 'This fails' })
    const last = await client.completeWhole({ chatId, message: 'Later' })

    const made = (await branch(client, chatId, { beforeRunId: last.stream.runId })).body
    const again = await client.completeWhole({ chatId: made.chatId, message: 'Later, better' })

    expect(again.stream.result.status).toBe('completed')
    expect(lastInput()).toContain('content of /plan.txt')
    expect(lastInput()).toContain(PNG)
    const copies = await messagesOf(client, made.chatId)
    expect(copies[0].attachments.map(({ state }: Json) => state)).toEqual(['ok', 'ok'])
    expect(copies.find(({ status: of }) => of === 'failed')).toMatchObject({ error: { code: 'upstream_auth_failed' } })
    expect(JSON.stringify(copies)).not.toContain('canary')
    expect(await platform.violations()).toEqual([])
  })

  test('files of earlier messages are refreshed with the first message to a branch, as in every chat', async () => {
    const client = await platform.client()
    expired = ''
    const name = `${files.url}/plan.txt`
    platform.provider.respond(() => text('Seen.'))
    const { chatId } = (
      await client.completeWhole({ attachments: [{ type: 'input_file', file_url: `${name}?sig=first` }] })
    ).stream
    const { runId: beforeRunId } = (await client.completeWhole({ chatId, message: 'Two' })).stream
    expired = 'first'
    const failed = await client.completeWhole({ chatId, message: 'Three' })
    const made = (await branch(client, chatId, { beforeRunId })).body

    const stale = await client.completeWhole({ chatId: made.chatId, message: 'Two, better' })
    const attachmentUrlRefreshes = { [name]: `${name}?sig=second` }
    const fresh = await client.completeWhole({ chatId: made.chatId, message: 'Two, better', attachmentUrlRefreshes })

    expect(failed.stream.result.error.code).toBe('attachment_fetch_failed')
    expect([stale.status, stale.body?.code]).toEqual([400, 'attachment_refresh_required'])
    expect(fresh.stream.result.status).toBe('completed')
    expect(lastInput()).toContain('content of /plan.txt')
  })

  test('404 and 409 for what is not there, is not in this chat, or is taken', async () => {
    const client = await platform.client()
    const stranger = await platform.client()
    const { chatId, runs } = await chatOf(client, ['One'], { aliasChatId: 'taken' })
    const other = await chatOf(client, ['Elsewhere'])

    const unknown = await branch(client, chatId, { beforeRunId: other.runs[0] })

    expect([unknown.status, unknown.body.code]).toEqual([404, 'run_not_found'])
    expect(unknown.body.fields).toMatchObject([{ path: '/beforeRunId' }])
    const [beforeRunId] = runs
    expect((await branch(client, chatId, { beforeRunId, aliasChatId: 'taken' })).body.code).toBe('alias_in_use')
    expect((await branch(stranger, chatId, { beforeRunId })).body.code).toBe('chat_not_found')
    expect((await client.get('/v1/chats')).body.data).toHaveLength(2)
  })

  test('400 names the field that is missing', async () => {
    const client = await platform.client()
    const { chatId } = await chatOf(client, ['One'])

    const refused = await branch(client, chatId, {})

    expect([refused.status, refused.body.code]).toEqual([400, 'invalid_request'])
    expect(refused.body.fields).toMatchObject([{ path: '/beforeRunId' }])
  })

  test('pages of consumers branch their own chats, which remain theirs', async () => {
    const client = await platform.client()
    const { chatId, runs } = await chatOf(client, ['One', 'Two'], { consumerId: 'ada' })
    const page = async (consumerId: string): Promise<TestClient> => {
      const { body } = await client.post('/v1/consumer_tokens', {
        apiIntegrationId: client.integrationId,
        consumerId,
        scopes: ['chat', 'read'],
      })
      return client.with({ token: body.token })
    }

    const own = await branch(await page('ada'), chatId, { beforeRunId: runs[1] })
    const foreign = await branch(await page('bob'), chatId, { beforeRunId: runs[1] })

    expect(own.body).toMatchObject({ createdByConsumerId: 'ada', messageCount: 2 })
    expect([foreign.status, foreign.body.code]).toEqual([404, 'chat_not_found'])
    expect((await (await page('bob')).get(`/v1/chats/${own.body.chatId}`)).status).toBe(404)
  })

  test('a page gives no alias to a branch: what is said under the aliases of the owner is not for it', async () => {
    const client = await platform.client()
    const { chatId, runs } = await chatOf(client, ['One'], { consumerId: 'ada' })
    const { body } = await client.post('/v1/consumer_tokens', {
      apiIntegrationId: client.integrationId,
      consumerId: 'ada',
      scopes: ['chat', 'read'],
    })
    const page = client.with({ token: body.token })

    const refused = await branch(page, chatId, { beforeRunId: runs[0], aliasChatId: 'order-7' })
    const { stream } = await client.completeWhole({
      consumerId: 'bob',
      aliasChatId: 'order-7',
      message: 'For you alone.',
    })

    expect([refused.status, refused.body.code]).toEqual([403, 'insufficient_scope'])
    expect((await page.get(`/v1/chats/${stream.chatId}/messages`)).status).toBe(404)
    expect((await branch(page, chatId, { beforeRunId: runs[0], aliasChatId: null })).status).toBe(201)
  })
})
