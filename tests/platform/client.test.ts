import { createClient, partsOf, platformApi, type PlatformOptions } from '@bureau/client'
import { describe, expect, test } from 'vitest'
import { startCuttingProxy } from '../support/cutting-proxy.ts'
import { cuttingFetch, eventsOf, memoryStorage } from '../support/broken-connections.ts'
import { hold, status, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import type { TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

const openClient = (caller: TestClient, options: Partial<PlatformOptions> = {}) =>
  createClient({
    url: caller.url,
    integration: caller.integrationId,
    token: caller.token,
    retryDelaysMs: [0, 10, 50, 100, 200, 400, 800],
    ...options,
  })

describe.each(ENGINES)('a client of the platform on %s', (engine) => {
  const platform = servePlatform(engine)
  const askClerk = toolCall('send_message', { recipient_agent: 'Clerk', message: 'Any boots?' })

  test('cut anywhere and sent again, there is one run, and each event comes once', async () => {
    const caller = await platform.client()
    platform.provider.script([askClerk, text('Twelve pairs.'), text('Yes, we have boots.')])
    const first = openClient(caller).stream({ message: 'Boots?', request: 'r' })
    const whole = await eventsOf(first)
    const expected = await first.result
    const length = (await (await caller.follow(expected.run)).all()).text.length

    for (let at = 0; at < length; at += 397) {
      const cut = openClient(caller, { fetch: cuttingFetch(at, at + 1) }).stream({ message: 'Boots?', request: 'r' })
      expect(await eventsOf(cut)).toEqual(whole)
      expect(await cut.result).toEqual(expected)
      expect(cut.parts).toEqual(first.parts)
    }
    expect((await caller.get('/v1/runs')).body.data).toHaveLength(1)
    const { entries } = await openClient(caller).history((await first.started).chat!)
    expect(partsOf(entries.map(({ item }) => item))).toEqual(first.parts)
  })

  test('a live run is followed over broken connections', async () => {
    const caller = await platform.client()
    const gates = [platform.provider.gate(), platform.provider.gate(), platform.provider.gate()] as const
    platform.provider.script([textDeltas(['a', hold(gates[0]), 'b', hold(gates[1]), 'c', hold(gates[2]), 'd'])])
    const proxy = await startCuttingProxy(platform.url)
    const run = openClient(caller, { url: proxy.url }).stream('Hi')
    const pieces: string[] = []
    for await (const piece of run.text()) {
      pieces.push(piece)
      proxy.shut()
      gates[pieces.length - 1]?.release()
      proxy.open()
    }

    expect(pieces).toEqual(['a', 'b', 'c', 'd'])
    expect((await run.result).text).toBe('abcd')
    expect((await caller.get('/v1/runs')).body.data).toHaveLength(1)
  })

  test('a request whose answer never arrives begins one run', async () => {
    const caller = await platform.client()
    platform.provider.respond(() => text('Hello.'))
    let requests = 0
    const losing: typeof fetch = async (input, init) => {
      const response = await fetch(input, init)
      requests += 1
      if (requests > 3) return response
      await response.body?.cancel()
      throw new TypeError('fetch failed')
    }
    const run = openClient(caller, { fetch: losing }).stream('Hi')

    expect((await run.result).text).toBe('Hello.')
    expect(requests).toBe(4)
    expect((await caller.get('/v1/runs')).body.data).toHaveLength(1)
  })

  test('after a reload the run of a chat is replayed from its start; when it is over there is none', async () => {
    const caller = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['a', hold(gate), 'b'])])
    const storage = memoryStorage()
    const before = openClient(caller, { storage }).stream({ message: 'Hi', chat: 'mine' })
    for await (const _piece of before.text()) break
    before.detach()
    const { run, chat } = await before.started
    expect([...storage.kept.values()].map((kept) => JSON.parse(kept))).toEqual([
      { chat: 'mine', request: before.request, run },
    ])

    const after = await openClient(caller, { storage }).attach({ chat: 'mine' })
    const elsewhere = await openClient(caller).attach({ chat: 'mine' })
    const byRequest = await openClient(caller).attach({ request: before.request! })
    gate.release()

    for (const each of [after, elsewhere, byRequest]) {
      expect(await each!.result).toMatchObject({ status: 'completed', text: 'ab', run })
      expect(await each!.started).toEqual({ run, chat, request: before.request })
      expect(each!.parts).toMatchObject([{ type: 'text', text: 'ab' }])
    }
    expect(storage.kept).toEqual(new Map())
    expect(await openClient(caller, { storage }).attach({ chat: 'mine' })).toBeNull()
  })

  test('attaching to what never was sends nothing', async () => {
    const caller = await platform.client()
    const storage = memoryStorage()
    const offline = openClient(caller, {
      storage,
      retryDelaysMs: [],
      fetch: () => Promise.reject(new TypeError('fetch failed')),
    })
    await expect(offline.stream({ message: 'Hi', chat: 'mine' }).result).rejects.toMatchObject({
      code: 'connection_lost',
      retryable: true,
    })
    const client = openClient(caller, { storage })

    expect(await client.attach({ chat: 'mine' })).toBeNull()
    expect(await client.attach({ request: 'none' })).toBeNull()
    expect(await client.attach({ run: 'run_none' })).toBeNull()
    await expect(openClient(caller.with({ token: 'no' })).attach({ run: 'x' })).rejects.toMatchObject({ status: 401 })
    expect((await caller.get('/v1/runs')).body.data).toEqual([])
  })

  test('cancel stops the run, detach leaves it', async () => {
    const caller = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.respond(() => textDeltas(['Half', hold(gate), ' of it']))
    const client = openClient(caller)
    const cancelled = client.stream('Hi')
    await cancelled.cancel()
    expect((await cancelled.result).status).toBe('cancelled')
    await cancelled.cancel()

    const left = client.stream('Hi')
    const { run } = await left.started
    left.detach()
    await expect(left.result).rejects.toMatchObject({ code: 'detached', run })
    gate.release()
    expect(await (await client.attach({ run }))!.result).toMatchObject({ status: 'completed', text: 'Half of it' })
  })

  test('a failed run rejects with the code that its record has', async () => {
    const caller = await platform.client()
    platform.provider.respond(() => status(401))
    const run = openClient(caller).stream('Hi')

    await expect(run.result).rejects.toMatchObject({
      code: 'upstream_auth_failed',
      retryable: false,
      status: undefined,
    })
    expect(run.connection).toBe('closed')
  })

  test('409 run_active names the run, which can be attached to', async () => {
    const caller = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['a', hold(gate), 'b'])])
    const client = openClient(caller)
    const first = client.stream({ message: 'One', chat: 'mine' })
    const { run } = await first.started

    await expect(client.stream({ message: 'Two', chat: 'mine' }).result).rejects.toMatchObject({
      code: 'run_active',
      status: 409,
      run,
    })
    const attached = await client.attach({ chat: 'mine' })
    gate.release()
    expect((await attached!.result).text).toBe('ab')
  })

  test('401, 404, 422 and a used allowance are errors with their codes, at once', async () => {
    const caller = await platform.client({ memberAllowancesEnabled: true })
    platform.provider.respond(() => text('Hello.'))
    await caller.post(`/v1/integrations/${caller.integrationId}/members`, {
      consumerId: 'ada',
      allowance: { messages: 1, period: 'month' },
    })
    const ask = (client: TestClient, request: string, message = 'Hi'): Promise<unknown> =>
      openClient(client).stream({ message, request, body: { consumerId: 'ada' } }).result
    await ask(caller, 'one')

    await expect(ask(caller.with({ token: 'no' }), 'a')).rejects.toMatchObject({ code: 'invalid_api_key', status: 401 })
    await expect(ask(caller.with({ integrationId: 'none' }), 'a')).rejects.toMatchObject({
      code: 'integration_not_found',
      status: 404,
    })
    await expect(ask(caller, 'one', 'Other')).rejects.toMatchObject({ code: 'usage_request_id_reused', status: 422 })
    await expect(ask(caller, 'two')).rejects.toMatchObject({
      code: 'consumer_allowance_exhausted',
      status: 429,
      retryAfterMs: expect.any(Number),
    })
  })

  test('a history comes in parts, the latest first, with what failed and why', async () => {
    const caller = await platform.client()
    const client = openClient(caller)
    expect(await client.history('mine')).toEqual({ entries: [], cursor: null })
    platform.provider.respond(() => text('Yes.'))
    for (let at = 0; at < 51; at += 1) await client.stream({ message: `Question ${at}`, chat: 'mine' }).result
    platform.provider.respond(() => status(401))
    await expect(client.stream({ message: 'Fail', chat: 'mine' }).result).rejects.toMatchObject({
      code: 'upstream_auth_failed',
    })

    const latest = await client.history('mine')
    const earlier = await client.history('mine', latest.cursor!)
    const entries = [...earlier.entries, ...latest.entries]
    expect(earlier.cursor).toBeNull()
    expect(entries).toHaveLength(104)
    expect(entries[0]).toMatchObject({ item: { role: 'user' }, error: null })
    expect(partsOf(entries.slice(0, 2).map(({ item }) => item))).toMatchObject([{ type: 'text', text: 'Yes.' }])
    expect(entries.at(-1)).toMatchObject({ error: { code: 'upstream_auth_failed' } })
  })

  test('chats and runs are listed, read, changed and deleted', async () => {
    const caller = await platform.client()
    platform.provider.respond(() => text('Hello.'))
    const { run } = await openClient(caller).stream({ message: 'Hi', chat: 'mine' }).result
    const { chats, runs } = platformApi({ url: caller.url, token: caller.token, integration: caller.integrationId })

    const [chat] = (await chats.list({ aliasChatId: 'mine' })).data
    const { chatId } = chat!
    expect(await chats.update(chatId, { title: 'Greetings' })).toMatchObject({ title: 'Greetings' })
    expect(await chats.get(chatId)).toMatchObject({ aliasChatId: 'mine', title: 'Greetings' })
    expect((await chats.messages(chatId, { limit: 1 })).data).toMatchObject([{ role: 'user' }])
    expect((await runs.list({ chatId })).data).toMatchObject([{ runId: run, status: 'completed' }])
    expect(await runs.get(run)).toMatchObject({ runId: run })
    await chats.delete(chatId)
    await expect(chats.get(chatId)).rejects.toMatchObject({ code: 'chat_not_found' })
  })

  test('an upload says how far it is, and goes on where it was when the connection broke', async () => {
    const caller = await platform.client()
    const content = 'x'.repeat(2_500_000)
    let patches = 0
    const losing: typeof fetch = async (input, init) => {
      const response = await fetch(input, init)
      if (init?.method !== 'PATCH') return response
      patches += 1
      // The first part arrives, and its answer does not.
      if (patches === 1) throw new TypeError('fetch failed')
      return response
    }
    const integration = caller.integrationId
    const { files } = platformApi({
      url: caller.url,
      integration,
      token: caller.token,
      retryDelaysMs: [0, 0],
      fetch: losing,
    })
    const progress: number[] = []
    const file = new File([content], 'long.txt')
    const stored = await files.upload(file, { onProgress: (sent) => progress.push(sent) })

    expect(stored).toEqual({ name: 'long.txt', path: expect.stringMatching(/^\/app\/mnt\/.*\/long\.txt$/) })
    expect(progress).toEqual([2_097_152, 2_500_000])
    expect(patches).toBe(3)
    const path = encodeURIComponent(stored.path)
    const { text } = await caller.get(`/v1/integrations/${integration}/files/content?path=${path}`)
    expect(text === content).toBe(true)
  })

  test('an upload that is aborted says so, and not that the connection was lost', async () => {
    const { url, integrationId: integration, token } = await platform.client()
    const { files } = platformApi({ url, integration, token })
    const leaving = new AbortController()
    const reason = new Error('The user has closed the window.')
    const file = new File(['x'.repeat(2_500_000)], 'long.txt')
    const uploaded = files.upload(file, { signal: leaving.signal, onProgress: () => leaving.abort(reason) })

    await expect(uploaded).rejects.toMatchObject({ code: 'detached', retryable: false, cause: reason })
  })

  test('Text Only Mode is told by name', async () => {
    const caller = await platform.client({ textOnlyMode: true })
    platform.provider.respond(() => text('Hello.'))

    await expect(openClient(caller).stream('Hi').result).rejects.toMatchObject({ code: 'not_a_stream' })
  })
})

describe('limits', () => {
  const platform = servePlatform('pglite', { config: { rates: { perMinute: 60, burst: 1 }, maxActiveRuns: 9 } })

  test('429 is sent again after the time that the platform asks for', async () => {
    const caller = await platform.client()
    platform.provider.respond(() => text('Hello.'))
    await caller.get('/v1/agencies')

    expect((await openClient(caller).stream('Hi').result).text).toBe('Hello.')
  })
})
