import { randomUUID } from 'node:crypto'
import { Agency, Agent, MCPServerOAuth, tool } from '@bureau/framework'
import { type SseFrame, SseParser } from '@bureau/protocol'
import type { FastifyRequest } from 'fastify'
import { assert, asyncProperty, integer } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { asUser, testUser } from '../oauth/support/test-user.ts'
import { TEST_REDIS_URL, testRedisReachable } from '../support/test-redis.ts'
import { type Gate, hold, stall, status as refusal, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { soloAgency, startTestServer, type TestServer, TestStream } from '../support/test-server.ts'

const STREAM = '/solo/get_response_stream'
const GOES_ON = { message: 'hi', on_disconnect: 'continue' }
const eventsOf = (runId: string): string => `/solo/runs/${runId}/events`

async function follow(server: TestServer, runId: string, after?: string | null): Promise<TestStream> {
  const headers = after === undefined || after === null ? undefined : { 'last-event-id': after }
  return new TestStream(await fetch(server.url + eventsOf(runId), { ...(headers && { headers }) }))
}

const framesOf = (streamed: string): SseFrame[] => new SseParser().push(streamed)
const numberedOf = (frames: readonly SseFrame[]): SseFrame[] => frames.filter(({ id }) => id !== null)
const numbersOf = (frames: readonly SseFrame[]): number[] => numberedOf(frames).map(({ id }) => Number(id))

/** A run whose client has left after its first words; it waits at the gate. */
async function leftRun(server: TestServer, gate: Gate): Promise<{ runId: string; seen: readonly SseFrame[] }> {
  server.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
  const stream = await server.stream(STREAM, GOES_ON)
  await stream.untilText('One')
  await stream.hangUp()
  return { runId: stream.runId, seen: stream.frames }
}

/** No `meta` is longer. */
const META_LENGTH = 120

type Cut = {
  readonly bytes: number
  /** The gate opens for whoever reads further than this text. */
  readonly beyond: string
  readonly gate: Gate
}

/** Starts a run and reads so many bytes of its stream, or all. */
async function bytesOf(server: TestServer, { bytes, beyond, gate }: Cut): Promise<string> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(server.url + STREAM, { method: 'POST', headers, body: JSON.stringify(GOES_ON) })
  let read = Buffer.alloc(0)
  for await (const piece of response.body!) {
    read = Buffer.concat([read, piece])
    if (read.length >= bytes) break // hangs up
    if (read.includes(beyond)) gate.release()
  }
  return read.subarray(0, bytes).toString()
}

const gone = async (server: TestServer, runId: string): Promise<number> => (await server.get(eventsOf(runId))).status

describe('on_disconnect', () => {
  test('continue: whoever comes back gets what followed, each event once, and then the end', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    const { runId, seen } = await leftRun(server, gate)

    const again = await follow(server, runId, seen.at(-1)!.id)
    gate.release()
    await again.all()

    expect(JSON.parse(again.frames[0]!.data)).toEqual({
      run_id: runId,
      resumed: true,
      resume_from: Number(seen.at(-1)!.id),
    })
    const numbers = numbersOf([...seen, ...again.frames])
    expect(numbers).toEqual(numbers.map((_, index) => index + 1))
    expect(again.outline.slice(-2)).toEqual(['messages', 'end'])
    expect(again.result).toMatchObject({ run_id: runId, new_messages: [{ role: 'user' }, { role: 'assistant' }] })
    expect(server.provider.aborted).toBe(0)
  })

  test('cancel, and nothing: a stream without numbers, whose run stops with its client', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    for (const body of [{ message: 'hi' }, { message: 'hi', on_disconnect: 'cancel' }]) {
      server.provider.script([[text('Half'), stall()]])
      const stream = await server.stream(STREAM, body)
      await stream.untilText('Half')
      await stream.hangUp()

      expect(stream.text).toMatch(/^event: meta\ndata: {"run_id":"[^"]+"}\n\n/)
      expect(numberedOf(stream.frames)).toEqual([])
      expect(await gone(server, stream.runId)).toBe(404)
    }
    await expect.poll(() => server.provider.aborted).toBe(2)
  })

  test('has the same frames as the stream without it, and `meta` at once', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('Paris.'))
    const [plain, kept] = await Promise.all(
      [{ message: 'hi' }, GOES_ON].map(async (body) => (await server.stream(STREAM, body)).all()),
    )

    expect(kept!.response.headers.get('content-type')).toBe(plain!.response.headers.get('content-type'))
    expect(kept!.response.headers.get('x-accel-buffering')).toBe('no')
    expect(kept!.text).toMatch(/^retry: 2000\nevent: meta\ndata: /)
    expect(JSON.parse(kept!.frames[0]!.data)).toEqual({ run_id: kept!.runId, resumed: false, resume_from: 0 })
    const named = ({ outline }: TestStream): string[] => outline.filter((name) => name !== 'output_text.delta')
    expect(named(kept!)).toEqual(named(plain!))
    expect(Object.keys(kept!.result)).toEqual(Object.keys(plain!.result))
  })

  test('`meta` comes before files are read, and files that cannot be used end in an error and `messages`', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const body = { ...GOES_ON, file_urls: { 'a.txt': 'http://127.0.0.1:1/a.txt' } }
    const stream = await (await server.stream(STREAM, body)).all()

    expect(stream.outline).toEqual(['meta', 'error', 'messages', 'end'])
  })

  test.each(['stay', '', 1])('422 for %j', async (value) => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { status, text: body } = await server.post(STREAM, { message: 'hi', on_disconnect: value })

    expect([status, body]).toEqual([422, expect.stringContaining('on_disconnect')])
  })

  test('422 for continue where the server keeps no runs, and no route to follow them', async () => {
    const server = await startTestServer({ agencies: soloAgency(), resumeMs: 0 })
    server.provider.script([text('ok')])

    const refused = await server.post(STREAM, GOES_ON)
    expect([refused.status, refused.body.error]).toEqual([422, expect.stringContaining('resumeMs')])
    expect((await server.stream(STREAM, { message: 'hi', on_disconnect: 'cancel' })).response.status).toBe(200)
    const { paths } = (await server.get('/openapi.json')).body
    expect(Object.keys(paths)).not.toContain('/solo/runs/{run_id}/events')
  })
})

describe('GET /<agency>/runs/<run_id>/events', () => {
  test('a stream that breaks off behind any byte goes on behind the last whole frame', async () => {
    const words = Array.from({ length: 12 }, (_, index) => `Wörd ${index} 🙂 `)
    const look = tool({ name: 'look', description: 'Looks.', parameters: z.object({}), execute: () => 'seen' })
    const server = await startTestServer({ agencies: soloAgency({ tools: [look] }) })
    const begin = (): Gate => {
      const gate = server.provider.gate()
      const answer = textDeltas([...words.slice(0, -1), hold(gate), words.at(-1)!])
      server.provider.script([toolCall('look', {}), answer])
      return gate
    }
    begin().release()
    const { length } = Buffer.from((await (await server.stream(STREAM, GOES_ON)).all()).text)

    const property = asyncProperty(integer({ min: META_LENGTH, max: length }), async (bytes) => {
      const gate = begin()
      const seen = framesOf(await bytesOf(server, { bytes, beyond: words.at(-2)!, gate }))
      const again = await follow(server, JSON.parse(seen[0]!.data).run_id, numberedOf(seen).at(-1)?.id)
      gate.release()
      await again.all()
      const whole = await (await follow(server, again.runId)).all()

      expect([...numberedOf(seen), ...numberedOf(again.frames)]).toEqual(numberedOf(whole.frames))
      expect(numbersOf(whole.frames)).toEqual(numbersOf(whole.frames).map((_, index) => index + 1))
      expect(whole.result.new_messages.at(-1).content[0].text).toBe(words.join(''))
    })
    await assert(property, { numRuns: 60 })
  })

  test('two readers at once, while the first is still there, get the same', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    const first = await server.stream(STREAM, GOES_ON)
    await first.untilText('One')
    const others = await Promise.all([follow(server, first.runId), follow(server, first.runId, '0')])
    gate.release()

    const all = await Promise.all([first, ...others].map((stream) => stream.all()))
    for (const stream of all) expect(numberedOf(stream.frames)).toEqual(numberedOf(first.frames))
  })

  test('a reader who reads nothing holds nobody back, and a late one gets a reset for what is no longer kept', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([textDeltas(Array.from({ length: 100 }, () => 'x'.repeat(60_000)))])
    const idle = await server.stream(STREAM, GOES_ON)
    await idle.until(({ event }) => event === 'meta')
    const other = await (await follow(server, idle.runId)).all()
    expect(other.outline.at(-1)).toBe('end')

    const late = await (await follow(server, idle.runId, '1')).all()
    await idle.hangUp()
    expect(late.outline).toEqual(['meta', 'reset', 'messages', 'end'])
    const [, reset] = late.frames
    expect(JSON.parse(reset!.data)).toEqual({ reason: 'log_lost', new_messages: late.result.new_messages })
    expect(numbersOf(late.frames).map((number) => number - Number(reset!.id))).toEqual([0, 1, 2])
  })

  test('after the end the rest is there, and 204 for whoever has everything', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Paris.')])
    const stream = await (await server.stream(STREAM, GOES_ON)).all()
    const last = stream.frames.at(-1)!.id!
    const path = eventsOf(stream.runId)

    const late = await (await follow(server, stream.runId, String(Number(last) - 2))).all()
    expect(late.outline).toEqual(['meta', 'messages', 'end'])
    const nothing = await server.get(path, { 'last-event-id': last })
    expect([nothing.status, nothing.text]).toEqual([204, ''])
    // The query wins over the header.
    const query = await server.get(`${path}?starting_after=${last}`, { 'last-event-id': '0' })
    expect(query.status).toBe(204)
  })

  test('404 when resumeMs after its end have passed', async () => {
    const server = await startTestServer({ agencies: soloAgency(), resumeMs: 2_000 })
    const gate = server.provider.gate()
    const { runId } = await leftRun(server, gate)
    const stream = await follow(server, runId)
    gate.release()
    await stream.all()

    expect(await gone(server, runId)).toBe(200)
    await expect.poll(() => gone(server, runId)).toBe(404)
  })

  test.each(['-1', '1.5', 'x', '99999999999999999', '1'.repeat(40)])('400 for Last-Event-ID %s', async (id) => {
    const server = await startTestServer({ agencies: soloAgency() })
    const answers = [
      await server.get(eventsOf('any'), { 'last-event-id': id }),
      await server.get(`${eventsOf('any')}?starting_after=${id}`),
    ]

    for (const { status, body } of answers) {
      expect([status, body.error]).toEqual([400, expect.stringContaining('whole number')])
    }
  })

  test('404 for an unknown run, that of another agency, and one that ends with its client', async () => {
    const { solo } = soloAgency()
    const server = await startTestServer({ agencies: { solo, other: soloAgency().solo } })
    const gate = server.provider.gate()
    const { runId } = await leftRun(server, gate)
    server.provider.script([[text('Half'), stall()]])
    const plain = await server.stream(STREAM, { message: 'hi' })
    await plain.untilText('Half')

    expect(await gone(server, 'unknown')).toBe(404)
    expect(await gone(server, plain.runId)).toBe(404)
    const other = await server.get(`/other/runs/${runId}/events`)
    expect([other.status, other.body.error]).toEqual([404, expect.stringContaining('no such run')])
    gate.release()
  })

  test('404 for the run of another user, 401 for nobody', async () => {
    const notes = new MCPServerOAuth({ name: 'notes', url: 'http://127.0.0.1:1/mcp' })
    const solo = new Agency({ entryPoint: new Agent({ name: 'Solo', model: 'gpt-test', mcpServers: [notes] }) })
    const server = await startTestServer({ agencies: { solo }, oauthUserId: testUser })
    const stream = await (await server.stream(STREAM, GOES_ON, { headers: asUser('ada') })).all()
    const statusFor = async (headers: Record<string, string>): Promise<number> =>
      (await server.get(eventsOf(stream.runId), headers)).status

    expect([await statusFor(asUser('ada')), await statusFor(asUser('eve')), await statusFor({})]).toEqual([
      200, 404, 401,
    ])
  })

  test('401 without the token of the server', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'secret' } })
    expect(await gone(server, 'any')).toBe(401)
  })
})

describe('request_id', () => {
  const NAMED = { ...GOES_ON, request_id: 'request-1' }
  const RESPONSE = '/solo/get_response'
  const runOf = (server: TestServer, id: string, headers?: Record<string, string>) =>
    server.get(`/solo/runs?request_id=${id}`, headers)

  test('the same request again follows its run from the start, while it goes on and after its end', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    const first = await server.stream(STREAM, NAMED)
    await first.untilText('One')
    await first.hangUp()
    const again = await server.stream(STREAM, NAMED)
    await again.untilText('One')
    gate.release()
    await again.all()
    const late = await (await server.stream(STREAM, NAMED)).all()

    for (const stream of [again, late]) {
      expect(JSON.parse(stream.frames[0]!.data)).toEqual({ run_id: first.runId, resumed: true, resume_from: 0 })
      expect(stream.result.new_messages.at(-1).content[0].text).toBe('One two.')
    }
    expect(numberedOf(late.frames)).toEqual(numberedOf(again.frames))
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('of many at once one begins the run, on either route, and all get its answer', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Paris.')])
    const streams = Promise.all([1, 2].map(async () => (await server.stream(STREAM, NAMED)).all()))
    const answers = await Promise.all([1, 2].map(() => server.post(RESPONSE, NAMED)))
    const runs = new Set((await streams).map(({ runId }) => runId))

    expect(runs.size).toBe(1)
    for (const { status, body } of answers) expect([status, body.response]).toEqual([200, 'Paris.'])
    expect((await server.post(RESPONSE, NAMED)).body).toEqual(answers[0]!.body)
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('a client that leaves before the first frame finds its run by the request', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    const leaving = new AbortController()
    const reached = server.handled(STREAM)
    const left = server.stream(STREAM, NAMED, { signal: leaving.signal })
    await reached
    leaving.abort()
    await expect(left).rejects.toThrow('aborted')

    await expect.poll(async () => (await runOf(server, 'request-1')).status).toBe(200)
    const { body } = await runOf(server, 'request-1')
    expect(body).toEqual({ run_id: expect.any(String), request_id: 'request-1' })
    gate.release()
    expect((await (await follow(server, body.run_id)).all()).result.run_id).toBe(body.run_id)
  })

  test('get_response goes on without its client, who gets the answer with the same request', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    const leaving = new AbortController()
    const headers = { 'content-type': 'application/json' }
    const sent = { method: 'POST', headers, body: JSON.stringify(NAMED), signal: leaving.signal }
    const left = fetch(server.url + RESPONSE, sent)
    await expect.poll(async () => (await runOf(server, 'request-1')).status).toBe(200)
    leaving.abort()
    await expect(left).rejects.toThrow('aborted')
    gate.release()

    const { status, body } = await server.post(RESPONSE, NAMED)
    expect([status, body.response, body.new_messages.length]).toEqual([200, 'One two.', 2])
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('a failed run is not begun again: the same request gets its error', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => refusal(400, { code: 'bad', message: 'No.' }))
    const [first, again] = [await server.post(RESPONSE, NAMED), await server.post(RESPONSE, NAMED)]

    expect([first.status, first.body.code]).toEqual([500, 'upstream_invalid_request'])
    expect([again.status, again.body]).toEqual([first.status, first.body])
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('422 with another message; another history is the same request', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Paris.')])
    await server.post(RESPONSE, NAMED)

    const other = await server.post(STREAM, { ...NAMED, message: 'something else' })
    expect([other.status, other.body.code]).toEqual([422, 'request_id_reused'])
    const carriedOn = { ...NAMED, chat_history: [{ role: 'user', content: 'earlier' }] }
    expect((await server.post(RESPONSE, carriedOn)).body.response).toBe('Paris.')
  })

  test('409 when the run is no longer kept: it is not begun again', async () => {
    const server = await startTestServer({ agencies: soloAgency(), resumeMs: 1 })
    server.provider.respond(() => text('Paris.'))
    await server.post(RESPONSE, NAMED)
    await expect.poll(async () => (await runOf(server, 'request-1')).status).toBe(404)

    const again = await server.post(RESPONSE, NAMED)
    expect([again.status, again.body.code]).toEqual([409, 'request_ended'])
    expect(server.provider.modelRequests).toHaveLength(1)
    expect((await server.post(RESPONSE, { ...NAMED, request_id: 'request-2' })).status).toBe(200)
  })

  test('a request that was refused can be sent again with its id', async () => {
    const server = await startTestServer({ agencies: soloAgency(), maxConcurrentRuns: 1 })
    const gate = server.provider.gate()
    const { runId } = await leftRun(server, gate)
    expect((await server.post(STREAM, NAMED)).status).toBe(503)
    expect((await runOf(server, 'request-1')).status).toBe(404)
    gate.release()
    await (await follow(server, runId)).all()

    server.provider.script([text('Paris.')])
    expect((await server.post(RESPONSE, NAMED)).body.response).toBe('Paris.')
  })

  test('ids belong to their caller and agency', async () => {
    const agencies = { solo: soloAgency().solo, other: soloAgency().solo }
    const authenticate = ({ headers }: FastifyRequest) => ({ id: String(headers['x-user']) })
    const server = await startTestServer({ agencies, authenticate })
    server.provider.respond(() => text('Paris.'))
    const [ada, eve] = [{ 'x-user': 'ada' }, { 'x-user': 'eve' }]
    await server.post(RESPONSE, NAMED, ada)

    expect((await runOf(server, 'request-1', eve)).status).toBe(404)
    expect((await server.get('/other/runs?request_id=request-1', ada)).status).toBe(404)
    expect((await server.post(RESPONSE, { ...NAMED, message: 'mine' }, eve)).status).toBe(200)
    expect((await server.post('/other/get_response', NAMED, ada)).status).toBe(200)
    const runs = await Promise.all([ada, eve].map(async (user) => (await runOf(server, 'request-1', user)).body.run_id))
    expect(new Set(runs).size).toBe(2)
    expect(server.provider.modelRequests).toHaveLength(3)
  })

  test.each(['', 'two words', 'ü', 'x'.repeat(129), 7])('422 for %j', async (request_id) => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { status, text: body } = await server.post(STREAM, { ...GOES_ON, request_id })

    expect([status, body]).toEqual([422, expect.stringContaining('request_id')])
  })

  test('422 without on_disconnect continue, and for a look-up without an id', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    for (const route of [STREAM, RESPONSE]) {
      const { status, body } = await server.post(route, { message: 'hi', request_id: 'request-1' })
      expect([status, body.error]).toEqual([422, expect.stringContaining("on_disconnect: 'continue'")])
    }
    const { status, body } = await server.get('/solo/runs')
    expect([status, body.error]).toEqual([422, expect.stringContaining('request_id')])
  })
})

describe('a run that nobody follows', () => {
  test('can be cancelled, and keeps its place until it has ended', async () => {
    const server = await startTestServer({ agencies: soloAgency(), maxConcurrentRuns: 1 })
    const { runId } = await leftRun(server, server.provider.gate())
    expect((await server.post('/solo/get_response', { message: 'hi' })).status).toBe(503)

    const { status, body } = await server.post('/solo/cancel_response_stream', { run_id: runId })
    const stream = await (await follow(server, runId)).all()

    expect([status, body.cancelled]).toEqual([200, true])
    expect(stream.result).toMatchObject({ cancelled: true, new_messages: body.new_messages })
    server.provider.script([text('ok')])
    expect((await server.post('/solo/get_response', { message: 'hi' })).status).toBe(200)
  })

  test('is waited for when the server closes, and whoever comes back meanwhile gets its end', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    const { runId } = await leftRun(server, gate)

    let isClosed = false
    const closing = server.close().then(() => (isClosed = true))
    const refused = await server.post(STREAM, GOES_ON)
    const again = await follow(server, runId)
    expect([refused.status, isClosed]).toEqual([503, false])
    gate.release()
    await again.all()
    await closing

    expect(again.outline.slice(-2)).toEqual(['messages', 'end'])
    expect(again.result).not.toHaveProperty('cancelled')
  })

  test('is cancelled when it outlasts the drain time', async () => {
    const server = await startTestServer({ agencies: soloAgency(), drainMs: 0 })
    const { runId } = await leftRun(server, server.provider.gate())
    const reader = await follow(server, runId)
    await server.close()

    expect((await reader.all()).result).toMatchObject({ cancelled: true })
  })
})

describe.runIf(await testRedisReachable())('two processes over Redis', () => {
  const env = { REDIS_URL: TEST_REDIS_URL }

  test('a run is followed and cancelled at the other one, from its first moment on', async () => {
    const [here, there] = await Promise.all([1, 2].map(() => startTestServer({ agencies: soloAgency(), env })))
    const gate = here!.provider.gate()
    here!.provider.script([[hold(gate, { before: 'headers' }), text('One two.'), stall()]])
    const stream = await here!.stream(STREAM, GOES_ON)
    await stream.until(({ event }) => event === 'meta')
    const elsewhere = await follow(there!, stream.runId)
    gate.release()
    await elsewhere.untilText('One two.')
    await stream.hangUp()
    const { body } = await there!.post('/solo/cancel_response_stream', { run_id: stream.runId })
    const [remote, local] = [await elsewhere.all(), await (await follow(here!, stream.runId)).all()]

    expect(body).toMatchObject({ ok: true, cancelled: true })
    expect(remote.result).toMatchObject({ cancelled: true, new_messages: body.new_messages })
    expect(numberedOf(remote.frames)).toEqual(numberedOf(local.frames))
  })

  test('404 for the run of another agency; after the end the rest, 204, and in time 404', async () => {
    const agencies = { solo: soloAgency().solo, other: soloAgency().solo }
    const [here, there] = await Promise.all([1, 2].map(() => startTestServer({ agencies, env, resumeMs: 4_000 })))
    here!.provider.script([text('Paris.')])
    const { runId, frames } = await (await here!.stream(STREAM, GOES_ON)).all()

    const late = await (await follow(there!, runId, '1')).all()
    expect(late.outline.at(-1)).toBe('end')
    expect((await there!.get(`/other/runs/${runId}/events`)).status).toBe(404)
    expect((await there!.get(eventsOf(runId), { 'last-event-id': frames.at(-1)!.id! })).status).toBe(204)
    await expect.poll(() => gone(there!, runId)).toBe(404)
  })

  test('the same request at the other one follows its run, or gets its answer, and both know which it is', async () => {
    const [here, there] = await Promise.all([1, 2].map(() => startTestServer({ agencies: soloAgency(), env })))
    const request = { ...GOES_ON, request_id: randomUUID() }
    const gate = here!.provider.gate()
    here!.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    const first = await here!.stream(STREAM, request)
    await first.untilText('One')
    const [stream, answer] = [await there!.stream(STREAM, request), there!.post('/solo/get_response', request)]
    const known = await there!.get(`/solo/runs?request_id=${request.request_id}`)
    gate.release()
    const all = await Promise.all([first.all(), stream.all()])

    expect(known.body.run_id).toBe(first.runId)
    expect(numberedOf(all[1].frames)).toEqual(numberedOf(all[0].frames))
    expect((await answer).body.response).toBe('One two.')
    expect((await there!.post(STREAM, { ...request, message: 'other' })).status).toBe(422)
    expect(there!.provider.modelRequests).toEqual([])
  })

  test('of the same request at both at once, one process answers it', async () => {
    const servers = await Promise.all([1, 2].map(() => startTestServer({ agencies: soloAgency(), env })))
    const request = { ...GOES_ON, request_id: randomUUID() }
    for (const { provider } of servers) provider.respond(() => text('Paris.'))
    const sent = [...servers, ...servers].map((server) => server.post('/solo/get_response', request))

    for (const { body } of await Promise.all(sent)) expect(body.response).toBe('Paris.')
    expect(servers.flatMap(({ provider }) => provider.modelRequests)).toHaveLength(1)
  })

  test('a server that closes sends away who reads there what the other one executes', async () => {
    const [here, there] = await Promise.all([1, 2].map(() => startTestServer({ agencies: soloAgency(), env })))
    const gate = here!.provider.gate()
    const { runId } = await leftRun(here!, gate)
    const reader = await follow(there!, runId)
    await reader.untilText('One')

    await Promise.all([there!.close(), expect(reader.all()).rejects.toThrow('terminated')])
    const again = await follow(here!, runId, numberedOf(reader.frames).at(-1)!.id)
    gate.release()
    expect((await again.all()).outline.at(-1)).toBe('end')
  })
})
