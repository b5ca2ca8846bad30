import { expect, onTestFinished, test, vi } from 'vitest'
import { createClient } from './client.ts'
import { memoryStorage } from '../../../tests/support/broken-connections.ts'
import {
  clientOf,
  EXPECTED,
  FRAMES,
  framesOf,
  heard,
  KINDS,
  META,
  SOON,
  startScriptedServer,
} from './scripted-server.test-support.ts'

test.each(KINDS)('%s: a silent connection is taken for lost', async (kind) => {
  const server = await startScriptedServer(FRAMES)
  server.next({ cutAfter: META.length + 40 }, 'silent')
  const run = clientOf(kind, server.url, { silenceMs: 1_500 }).stream('Hi')

  expect(await heard(run)).toEqual(EXPECTED)
  expect(server.requests.map(({ method }) => method)).toEqual(['POST', 'GET', 'GET'])
})

test('text has what the lost events have said, and no word twice', async () => {
  const server = await startScriptedServer(FRAMES)
  const said = (id: string, text: string) => ({ id, role: 'assistant', callerAgent: null, content: text })
  const nested = { ...said('msg-x', 'Psst.'), callerAgent: 'Solo', parent_run_id: 'call-1' }
  const kept = [nested, said('msg-0', 'Before.')]
  const reset = JSON.stringify({ new_messages: kept, partial: { item_id: 'msg-1', text: 'Héllo ' } })
  server.next({ frames: [...FRAMES.slice(0, 2), `event: reset\ndata: ${reset}\n\n`, ...FRAMES.slice(3)] })
  const run = clientOf('platform', server.url).stream('Hi')
  const pieces: string[] = []
  for await (const piece of run.text()) pieces.push(piece)

  expect(pieces).toEqual(['Hé', '\n\nBefore.', '\n\nllo ', '🌍'])
})

test('a page whose network is back tries at once', async () => {
  const server = await startScriptedServer(FRAMES)
  const page = new EventTarget()
  vi.stubGlobal('addEventListener', page.addEventListener.bind(page))
  vi.stubGlobal('removeEventListener', page.removeEventListener.bind(page))
  onTestFinished(() => void vi.unstubAllGlobals())
  server.next({ cutAfter: META.length + 20 })
  const run = createClient({ url: server.url, integration: 'int-1', retryDelaysMs: [60_000] }).stream('Hi')
  run.subscribe(() => {
    if (run.connection === 'reconnecting') setImmediate(() => page.dispatchEvent(new Event('online')))
  })

  expect(await heard(run)).toEqual(EXPECTED)
})

test('however often a page wakes up without a network, it has its attempts afterwards', async () => {
  const server = await startScriptedServer(FRAMES)
  const page = new EventTarget()
  vi.stubGlobal('addEventListener', page.addEventListener.bind(page))
  onTestFinished(() => void vi.unstubAllGlobals())
  server.next({ cutAfter: META.length + 20 }, 'lost', 'lost', 'lost')
  const run = createClient({ url: server.url, integration: 'int-1', retryDelaysMs: [60_000] }).stream('Hi')
  const waking = setInterval(() => page.dispatchEvent(new Event('online')), 20)
  onTestFinished(() => clearInterval(waking))

  expect(await heard(run)).toEqual(EXPECTED)
})

test.each(KINDS)('%s: the same request comes again when its answer was lost', async (kind) => {
  const server = await startScriptedServer(FRAMES)
  server.next('lost', { status: 503 }, { status: 502 }, { status: 429, headers: { 'retry-after': '0' } })
  const run = clientOf(kind, server.url).stream({ message: 'Hi', request: 'mine' })

  expect((await run.result).text).toBe('Héllo 🌍')
  expect(run.request).toBe('mine')
  const member = kind === 'platform' ? 'usageRequestId' : 'request_id'
  expect(server.requests.map(({ body }) => body[member])).toEqual(Array(5).fill('mine'))
})

test.each([520, 522, 524, 530])('a %i of a proxy that does not reach its server is tried again', async (status) => {
  const server = await startScriptedServer(FRAMES)
  server.next({ status }, { cutAfter: META.length + 20 }, { status })

  expect(await heard(clientOf('platform', server.url).stream('Hi'))).toEqual(EXPECTED)
})

test.each([{}, { 'x-agent-run-admitted': 'true', 'x-agent-run-id': 'run-1' }])(
  'a 500 of the platform that may have begun a run is sent again, under the same id: %j',
  async (headers) => {
    const server = await startScriptedServer(FRAMES)
    server.next({ status: 500, body: { error: 'x', code: 'internal_error' }, headers }, { status: 500, headers })
    const run = clientOf('platform', server.url).stream('Hi')

    expect((await run.result).text).toBe('Héllo 🌍')
    expect(server.requests.map(({ body }) => body['usageRequestId'])).toEqual(Array(3).fill(run.request))
  },
)

test('a 500 of the platform is an error in the end, and at once where no run has begun', async () => {
  const server = await startScriptedServer(FRAMES)
  server.next(...Array.from({ length: 1 + SOON.length }, () => ({ status: 500 })))
  await expect(clientOf('platform', server.url).stream('Hi').result).rejects.toMatchObject({ status: 500 })
  expect(server.requests).toHaveLength(1 + SOON.length)

  server.next({ status: 500, headers: { 'x-agent-run-admitted': 'false' } })
  await expect(clientOf('platform', server.url).stream('Hi').result).rejects.toMatchObject({ status: 500 })
  expect(server.requests).toHaveLength(2 + SOON.length)

  server.next({ status: 500 })
  await expect(clientOf('self-hosted server', server.url).stream('Hi').result).rejects.toMatchObject({ status: 500 })
  expect(server.requests).toHaveLength(3 + SOON.length)
})

test('without resume, a message is sent again only when the server has refused it for now', async () => {
  const server = await startScriptedServer(FRAMES)
  const client = createClient({ url: server.url, retryDelaysMs: SOON })
  server.next({ status: 503, headers: { 'retry-after': '0' } })
  expect((await client.stream('Hi').result).status).toBe('completed')
  expect(server.requests).toHaveLength(2)

  server.next('lost')
  await expect(client.stream('Hi').result).rejects.toMatchObject({ code: 'connection_lost', run: undefined })
  expect(server.requests).toHaveLength(3)
  expect(server.requests[0]?.body).not.toHaveProperty('request_id')
})

test('without resume, a lost connection is an error that names the run', async () => {
  const server = await startScriptedServer(FRAMES)
  server.next({ cutAfter: META.length + 20 })
  const run = createClient({ url: server.url, retryDelaysMs: SOON }).stream('Hi')

  await expect(heard(run)).rejects.toMatchObject({ code: 'connection_lost', run: 'run-1' })
  await expect(run.result).rejects.toMatchObject({ code: 'connection_lost', run: 'run-1' })
  expect(server.requests[0]?.body).not.toHaveProperty('on_disconnect')
  expect(run.connection).toBe('closed')
})

test('when no attempt succeeds, the error names the run, and attaching brings it all', async () => {
  const server = await startScriptedServer(FRAMES)
  const client = clientOf('platform', server.url)
  server.next({ cutAfter: META.length + 20 }, 'lost', 'lost', 'lost', 'lost')
  const failure = await client.stream('Hi').result.catch((error: unknown) => error)
  expect(failure).toMatchObject({ code: 'connection_lost', run: 'run-1' })

  const again = await client.attach({ run: 'run-1' })

  expect(await heard(again!)).toEqual(EXPECTED)
})

test('the token is asked for again with every attempt', async () => {
  const server = await startScriptedServer(FRAMES)
  server.next({ cutAfter: META.length + 20 })
  let asked = 0
  const token = async () => `token-${(asked += 1)}`
  const headers = () => ({ 'x-asked': String(asked) })
  await createClient({ url: server.url, integration: 'i', token, headers, retryDelaysMs: SOON }).stream('Hi').result

  expect(server.requests.map(({ authorization }) => authorization)).toEqual(['Bearer token-1', 'Bearer token-2'])
})

test('a stream that a token has ended is followed on behind its last event, with another one', async () => {
  const server = await startScriptedServer(FRAMES)
  const [first = '', second = ''] = FRAMES
  const ended = 'event: token_ended\ndata: {"code":"invalid_consumer_token","error":"It has ended."}\n\n'
  server.next({ frames: [first, second + ended] })
  const run = clientOf('platform', server.url).stream('Hi')

  expect(await heard(run)).toEqual(EXPECTED)
  expect(run.parts).toMatchObject([{ text: 'Héllo 🌍' }])
  expect(server.requests.at(-1)?.path).toBe('/v1/runs/run-1/events?starting_after=2')
})

test.each(['token', 'headers'] as const)(
  'a %s function that fails is a lost connection, and asked again',
  async (option) => {
    const server = await startScriptedServer(FRAMES)
    server.next({ cutAfter: META.length + 20 })
    const failures = [2, 3]
    let asked = 0
    const give = async () => {
      asked += 1
      if (failures.includes(asked)) throw new TypeError('Failed to fetch')
      return option === 'token' ? 'mine' : { authorization: 'mine' }
    }
    const options = { url: server.url, integration: 'i', [option]: give }
    const run = createClient({ ...options, retryDelaysMs: SOON }).stream('Hi')
    expect(await heard(run)).toEqual(EXPECTED)
    expect(asked).toBe(4)

    failures.push(5)
    const failed = createClient({ ...options, retryDelaysMs: [] }).stream('Hi').result
    await expect(failed).rejects.toMatchObject({
      code: 'connection_lost',
      message: expect.stringContaining('Failed to fetch'),
      cause: new TypeError('Failed to fetch'),
    })
  },
)

test('the connection says how it is, and parts keep their identity while nothing changes', async () => {
  const server = await startScriptedServer(FRAMES)
  server.next({ cutAfter: META.length + 20 })
  const run = clientOf('platform', server.url).stream('Hi')
  const states: string[] = [run.connection]
  let renewed = 0
  let parts = run.parts
  run.subscribe(() => {
    if (states.at(-1) !== run.connection) states.push(run.connection)
    if (parts !== run.parts) renewed += 1
    parts = run.parts
  })
  await run.result

  expect(states).toEqual(['connecting', 'open', 'reconnecting', 'open', 'closed'])
  expect(renewed).toBeGreaterThanOrEqual(4)
  expect(run.parts).toBe(parts)
  expect(parts).toEqual([{ id: 'msg-1', agent: 'Solo', parent: null, type: 'text', text: 'Héllo 🌍', state: 'done' }])
})

test('leaving ends what listens and sends nothing', async () => {
  const server = await startScriptedServer(FRAMES)
  server.next('silent')
  const leaving = new AbortController()
  const run = clientOf('platform', server.url).stream({ message: 'Hi', signal: leaving.signal })
  leaving.abort()

  expect(await heard(run)).toEqual([])
  await expect(run.result).rejects.toMatchObject({ code: 'detached' })
  await expect(run.started).rejects.toMatchObject({ code: 'detached' })
  const { length } = server.requests
  const { signal } = leaving
  await expect(clientOf('platform', server.url).stream({ message: 'Hi', signal }).result).rejects.toThrow(/listens/)
  expect(server.requests).toHaveLength(length)
})

test('what is stored are ids and what was sent, from before the first byte until the end', async () => {
  const server = await startScriptedServer(FRAMES)
  const storage = memoryStorage()
  const { kept } = storage
  const client = clientOf('self-hosted server', server.url, { storage })
  const sent = { message: 'Hi', before: 0 }
  server.next({ cutAfter: META.length + 20 })
  const running = client.stream({ message: 'Hi', chat: 'c', request: 'r' })
  expect([...kept.values()].map((text) => JSON.parse(text))).toEqual([{ chat: 'c', request: 'r', ...sent }])
  await running.started
  expect([...kept.values()].map((text) => JSON.parse(text))).toEqual([
    { chat: 'c', request: 'r', run: 'run-1', ...sent },
  ])
  running.detach()

  const reloaded = await clientOf('self-hosted server', server.url, { storage }).attach({ chat: 'c' })
  expect(await heard(reloaded!)).toEqual(EXPECTED)
  expect(kept).toEqual(new Map())
  expect(await client.attach({ chat: 'c' })).toBeNull()
})

test('a message of which a self-hosted server knows nothing is unanswered, and can be sent again', async () => {
  const server = await startScriptedServer(FRAMES)
  const storage = memoryStorage()
  const open = () => clientOf('self-hosted server', server.url, { storage })
  const gone = { status: 404, body: { error: 'There is no such run.', code: 'run_not_found' } }
  server.next('silent')
  const left = open().stream({ message: 'Hi', chat: 'c', request: 'r' })
  await expect.poll(() => server.requests).toHaveLength(1)
  left.detach()
  server.next(gone)

  expect(await open().attach({ chat: 'c' })).toBeNull()
  expect(server.requests.at(-1)?.path).toBe('/runs?request_id=r')
  expect(open().unanswered('c')).toMatchObject({ message: 'Hi', request: 'r' })
  await open().stream({ message: 'Hi', chat: 'c', request: 'r' }).result
  expect(open().unanswered('c')).toBeNull()
  expect(await open().attach({ chat: 'c' })).toBeNull()

  server.next({ cutAfter: META.length + 20 })
  const begun = open().stream({ message: 'Hi', chat: 'c' })
  await begun.started
  begun.detach()
  server.next(gone)
  expect(await open().attach({ chat: 'c' })).toBeNull()
  expect(open().unanswered('c')).toMatchObject({ message: 'Hi', run: 'run-1' })
})

test('two messages at once in a chat of a self-hosted server: both answers are kept', async () => {
  const server = await startScriptedServer(FRAMES)
  const histories = new Map()
  const client = createClient({ url: server.url, histories })
  server.next({ frames: framesOf(['1']) }, { frames: framesOf(['2']) })

  await Promise.all(['One', 'Two'].map((message) => client.stream({ message, chat: 'c' }).result))

  expect(histories.get('c')).toHaveLength(2)
})

test('a run that the server has forgotten is none', async () => {
  const server = await startScriptedServer(FRAMES)
  server.next({ status: 404, body: { error: 'There is no such run.' } })

  expect(await clientOf('self-hosted server', server.url).attach({ run: 'gone' })).toBeNull()
})

test.each([
  [401, { error: 'Unauthorized' }, { code: 'unauthorized', status: 401, message: 'Unauthorized' }],
  [403, { error: 'No.' }, { code: 'refused', status: 403 }],
  [404, {}, { code: 'not_found', message: 'The server answered with 404.' }],
  [409, { error: 'x', code: 'run_active' }, { code: 'run_active', status: 409, retryable: false }],
  [422, { error: 'x', detail: [] }, { code: 'invalid_request', body: { error: 'x', detail: [] } }],
  [
    429,
    { error: 'x', code: 'consumer_allowance_exhausted' },
    { code: 'consumer_allowance_exhausted', retryAfterMs: 7_200_000 },
  ],
  [429, { error: 'x' }, { code: 'rate_limited', retryable: true, retryAfterMs: 7_200_000 }],
  [503, { error: 'x', code: 'overloaded' }, { code: 'overloaded', retryable: true }],
])('a refusal with %i %j is an error with its code, at once', async (status, body, error) => {
  const server = await startScriptedServer(FRAMES)
  server.next({ status, body, headers: { 'retry-after': '7200' } })
  const run = clientOf('platform', server.url).stream('Hi')

  await expect(run.result).rejects.toMatchObject({ name: 'BureauError', ...error })
  await expect(run.started).rejects.toMatchObject(error)
  expect(server.requests).toHaveLength(1)
})

test('429 and 503 are sent again after the time that the server asks for', async () => {
  const server = await startScriptedServer(FRAMES)
  server.next({ status: 503, headers: { 'retry-after': '1' } })
  const begun = performance.now()
  await clientOf('platform', server.url).stream('Hi').result

  expect(performance.now() - begun).toBeGreaterThan(900)
})

test('a cancel waits for the run to begin, and comes again when it was lost', async () => {
  const server = await startScriptedServer(FRAMES)
  server.next({ cutAfter: META.length + 20 }, 'silent')
  server.loseCancel()
  const run = clientOf('platform', server.url).stream('Hi')
  await run.cancel('after_turn')
  run.detach()

  const cancels = server.requests.filter(({ path }) => path === '/v1/runs/run-1/cancel')
  const sent = { cancel_mode: 'after_turn', waitMs: 0 }
  expect(cancels.map(({ body }) => body)).toEqual([sent, sent])
})

test.each(['token', 'headers'] as const)(
  'a %s function that never answers is a lost connection, and nothing that an abort has to wait for',
  async (option) => {
    const server = await startScriptedServer(FRAMES)
    const options = { url: server.url, integration: 'i', [option]: () => new Promise<never>(() => {}) }
    const lost = { code: 'connection_lost', message: 'token or headers did not answer.' }
    const silent = createClient({ ...options, silenceMs: 20, retryDelaysMs: [0] })
    await expect(silent.stream('Hi').result).rejects.toMatchObject(lost)
    await expect(silent.history('c')).rejects.toMatchObject(lost)

    const leaving = new AbortController()
    const run = createClient(options).stream({ message: 'Hi', signal: leaving.signal })
    leaving.abort()
    expect(await heard(run)).toEqual([])
    await expect(run.result).rejects.toMatchObject({ code: 'detached' })
    expect(server.requests).toEqual([])
  },
)

test('silence is noticed though the clock was set back meanwhile', async () => {
  const server = await startScriptedServer(FRAMES)
  server.next('silent')
  const now = Date.now()
  const clock = vi.spyOn(Date, 'now').mockReturnValue(now)
  onTestFinished(() => clock.mockRestore())
  const run = clientOf('platform', server.url, { silenceMs: 50 }).stream('Hi')
  clock.mockImplementation(() => now - 3_600_000 + performance.now())

  expect(await heard(run)).toEqual(EXPECTED)
})

test('a frame of a later version need not be JSON', async () => {
  const [first = '', ...rest] = FRAMES
  const server = await startScriptedServer([first, 'event: weather\ndata: sunny\n\n', ...rest])

  expect(await heard(clientOf('platform', server.url).stream('Hi'))).toEqual(EXPECTED)
})
