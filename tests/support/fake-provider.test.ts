import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { cut, hold, htmlPage, malformed, raw, stall, startFakeProvider, status, text } from './fake-provider.ts'
import { framing, textDeltas, toolCall, type FakeProvider } from './fake-provider.ts'
import { askChat, askResponses, framesOf, MODEL, pick, post, typesOf } from './provider/ask-provider.ts'

let provider: FakeProvider
beforeEach(async () => {
  provider = await startFakeProvider()
})
afterEach(() => provider.close())

/** Reads a body in two halves: up to a mark, and what follows it. */
function readerOf(response: Response): { until(mark: string): Promise<string>; rest(): Promise<string> } {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  const until = async (isEnough: (seen: string) => boolean): Promise<string> => {
    let seen = ''
    while (!isEnough(seen)) {
      const { value, done } = await reader.read()
      if (done) break
      seen += value
    }
    return seen
  }
  return { until: (mark) => until((seen) => seen.includes(mark)), rest: () => until(() => false) }
}

type Arrived = { readonly pieces: readonly Buffer[]; readonly error: Error | null }

/** Asks and collects one piece per HTTP chunk, also when the answer breaks off. (fetch joins or drops pieces that wait.) */
async function askForPieces(): Promise<Arrived> {
  const headers = { authorization: 'Bearer sk-test', 'content-type': 'application/json' }
  const asking = request(`${provider.baseUrl}/responses`, { method: 'POST', headers, agent: false })
  asking.end(JSON.stringify({ model: MODEL, input: 'hi', stream: true }))
  const [response] = (await once(asking, 'response')) as [IncomingMessage]
  asking.on('error', () => undefined) // the response reports it too
  const pieces: Buffer[] = []
  response.on('data', (piece: Buffer) => pieces.push(piece))
  const error = await once(response, 'end').then(
    () => null,
    (reason: Error) => reason,
  )
  return { pieces, error }
}

describe('scripting', () => {
  test('turns of the queue answer requests in order', async () => {
    provider.script([text('one'), text('two')])

    const bodies = [await (await askResponses(provider)).text(), await (await askResponses(provider)).text()]

    expect(bodies[0]).toContain('"text":"one"')
    expect(bodies[1]).toContain('"text":"two"')
    expect(provider.unused).toBe(0)
  })

  test('a function answers concurrent requests by their content', async () => {
    provider.respond(({ lastUserText, toolOutputs }) =>
      lastUserText.startsWith('sum') && toolOutputs.length === 0 ? toolCall('add', { a: 1 }) : text(lastUserText),
    )

    const asked = ['sum up', 'red', 'blue'].map(async (input) => (await askResponses(provider, { input })).text())
    const [sum, red, blue] = await Promise.all(asked)

    expect(sum).toContain('"name":"add"')
    expect(red).toContain('"text":"red"')
    expect(blue).toContain('"text":"blue"')
  })

  test('a request that nothing was scripted for is refused and recorded', async () => {
    const response = await askResponses(provider)

    expect(response.status).toBe(400)
    expect(pick(await response.json(), 'error.code')).toBe('nothing_scripted')
    expect(provider.rejected.map(({ error }) => error.code)).toEqual(['nothing_scripted'])
  })

  test('a stop at an event that the answer does not have is an error, not silence', async () => {
    provider.script([[text('hi'), hold(provider.gate(), { before: 'response.nothing' })]])

    const response = await askResponses(provider)

    expect(response.status).toBe(400)
    expect(await response.text()).toContain('no event response.nothing')
  })
})

describe('records', () => {
  test('every request with its path, headers, body and order', async () => {
    provider.script([text('a'), text('b')])

    await (await askResponses(provider, { instructions: 'Be kind.' }, { key: 'sk-one' })).text()
    await fetch(`${provider.baseUrl}/models?limit=2`, { headers: { authorization: 'Bearer sk-two' } })
    await (
      await askChat(provider, {
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'hm' },
        ],
      })
    ).text()

    expect(
      provider.requests.map(({ order, method, path, query, apiKey, api }) => ({
        order,
        method,
        path,
        query,
        apiKey,
        api,
      })),
    ).toEqual([
      { order: 1, method: 'POST', path: '/v1/responses', query: '', apiKey: 'sk-one', api: 'responses' },
      { order: 2, method: 'GET', path: '/v1/models', query: 'limit=2', apiKey: 'sk-two', api: 'models' },
      { order: 3, method: 'POST', path: '/v1/chat/completions', query: '', apiKey: 'sk-test', api: 'chat' },
    ])
    const [first, , third] = provider.requests
    expect(first).toMatchObject({ instructions: 'Be kind.', lastUserText: 'hi', model: MODEL, stream: true })
    expect(third).toMatchObject({ instructions: 'Be brief.', lastUserText: 'hm' })
    expect(third!.at).toBeGreaterThan(first!.at)
    expect(provider.modelRequests).toEqual([first, third])
  })

  test('tool names and the results since the last user message', async () => {
    provider.script([text('ok')])
    const input = [
      { role: 'user', content: 'sum' },
      { type: 'function_call', call_id: 'call_1', name: 'add', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_1', output: '3' },
    ]

    await (await askResponses(provider, { input, tools: [{ type: 'function', name: 'add', parameters: {} }] })).text()

    expect(provider.requests[0]?.toolOutputs).toEqual([{ callId: 'call_1', output: '3' }])
    expect(provider.requests[0]?.toolNames).toEqual(['add'])
  })

  test('waiting for requests resolves when the last of them has arrived', async () => {
    provider.respond(() => text('x'))
    const waiting = provider.waitForRequests(2)

    await Promise.all([askResponses(provider), askResponses(provider)])

    await waiting
    expect(provider.modelRequests).toHaveLength(2)
  })
})

describe('stops', () => {
  test('between two deltas: what came before is out, the rest waits for the test', async () => {
    const gate = provider.gate()
    provider.script([textDeltas(['first ', hold(gate), 'second'])])

    const response = await askResponses(provider)
    await gate.reached()
    const reader = readerOf(response)
    const before = await reader.until('"delta":"first "')
    gate.release()
    const after = await reader.rest()

    expect(before).not.toContain('second')
    expect(after).toContain('"delta":"second"')
    expect(after).toContain('response.completed')
  })

  test.each([
    { before: 'response.completed', last: 'response.output_item.done' },
    { before: 2, last: 'response.in_progress' },
  ])('before event $before', async ({ before, last }) => {
    const gate = provider.gate()
    provider.script([[text('hi'), hold(gate, { before })]])

    const response = await askResponses(provider)
    await gate.reached()
    const reader = readerOf(response)
    const seen = await reader.until(`event: ${last}`)
    gate.release()

    expect(seen).not.toContain(`event: ${before}`)
    expect(await reader.rest()).toContain('event: response.completed')
  })

  test('before the status line', async () => {
    const gate = provider.gate()
    provider.script([[status(503), hold(gate, { before: 'headers' })]])
    let answered = false

    const asking = askResponses(provider).then((response) => {
      answered = true
      return response
    })
    await gate.reached()
    expect(answered).toBe(false)
    gate.release()

    expect((await asking).status).toBe(503)
  })

  test('an answer that is not streamed waits too', async () => {
    const gate = provider.gate()
    provider.script([[text('hi'), hold(gate)]])

    const asking = askResponses(provider, { stream: false })
    await gate.reached()
    gate.release()

    expect(pick(await (await asking).json(), 'output.0.content.0.text')).toBe('hi')
  })
})

describe('clients that leave', () => {
  test('are counted while the answer is silent', async () => {
    provider.script([[text('hi'), stall({ before: 'response.completed' })]])
    const left = new AbortController()

    const response = await askResponses(provider, {}, { signal: left.signal })
    await readerOf(response).until('output_item.done')
    left.abort()

    await provider.waitForAborts(1)
    expect(provider.aborted).toBe(1)
  })

  test('are counted before the headers', async () => {
    provider.script([stall({ before: 'headers' })])
    const left = new AbortController()

    const asking = askResponses(provider, {}, { signal: left.signal }).catch((error: Error) => error.name)
    await provider.waitForRequests(1)
    left.abort()

    expect(await asking).toBe('AbortError')
    await provider.waitForAborts(1)
  })

  test('are not counted when they got the whole answer, or when the script broke it off', async () => {
    provider.script([text('hi'), [text('hi'), cut({ after: 3 })]])

    await (await askResponses(provider)).text()
    await expect(async () => (await askResponses(provider)).text()).rejects.toThrow('terminated')

    expect(provider.aborted).toBe(0)
  })
})

describe('broken answers', () => {
  test.each(['reset', 'close'] as const)('%s: the stream fails after the events before the cut', async (how) => {
    provider.script([[text('hello'), cut({ how, after: 5 })]])

    const { pieces, error } = await askForPieces()

    expect(
      Buffer.concat(pieces)
        .toString()
        .match(/^event: /gm),
    ).toHaveLength(5)
    expect(error).toMatchObject({ code: 'ECONNRESET' })
  })

  test('end: the stream closes properly without its last event', async () => {
    provider.script([[text('hello'), cut({ how: 'end' })]])

    const types = typesOf(await framesOf(await askResponses(provider)))

    expect(types.at(-1)).toBe('response.output_item.done')
  })

  test('an HTTP error carries the body and headers of the script', async () => {
    provider.script([status(429, { error: { message: 'slow down' } }, { 'retry-after': '7' }), status(401)])

    const limited = await askResponses(provider)
    const denied = await askResponses(provider)

    expect([limited.status, limited.headers.get('retry-after')]).toEqual([429, '7'])
    expect(await limited.json()).toEqual({ error: { message: 'slow down' } })
    expect([denied.status, pick(await denied.json(), 'error.code')]).toEqual([401, 'invalid_api_key'])
  })

  test('a page where a stream was expected', async () => {
    provider.script([htmlPage()])

    const response = await askResponses(provider)

    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  })

  test('data that is no JSON, in its place', async () => {
    provider.script([[text('a'), malformed(), text('b')], malformed('{"id":')])

    const body = await (await askResponses(provider)).text()
    const whole = await (await askResponses(provider, { stream: false })).text()

    expect(body.indexOf('"delta":\n\n')).toBeGreaterThan(body.indexOf('"text":"a"'))
    expect(body).toContain('event: response.completed')
    expect(whole).toContain('{"id":')
  })

  test('bytes that are no UTF-8', async () => {
    provider.script([[raw(Uint8Array.of(0xff, 0xfe)), text('a')]])

    const { pieces } = await askForPieces()

    expect(Buffer.concat(pieces).includes(Buffer.of(0xff, 0xfe))).toBe(true)
  })
})

describe('framing', () => {
  test('one event per piece unless told otherwise', async () => {
    provider.script([text('one two three')])

    const { pieces } = await askForPieces()

    expect(
      pieces.map(
        (piece) =>
          Buffer.from(piece)
            .toString()
            .match(/^data: /gm)?.length,
      ),
    ).toEqual(pieces.map(() => 1))
    expect(pieces).toHaveLength(11)
  })

  test('everything in one piece', async () => {
    provider.script([[text('one two three'), framing({ writes: 'joined' })]])

    expect((await askForPieces()).pieces).toHaveLength(1)
  })

  test('pieces of three bytes cut code points apart, and the text stays whole', async () => {
    provider.script([[text('\u{1F600}é€'), framing({ writes: { bytes: 3 } })]])

    const { pieces } = await askForPieces()

    expect(Math.max(...pieces.map(({ length }) => length))).toBe(3)
    expect(pieces.some((piece) => piece.toString().includes('\uFFFD'))).toBe(true)
    expect(Buffer.concat(pieces).toString()).toContain('"text":"\u{1F600}é€"')
  })

  test('CRLF, no event lines, no space after the colon', async () => {
    provider.script([[text('hi'), framing({ newline: '\r\n', eventLines: false, spaceAfterColon: false })]])

    const body = await (await askResponses(provider)).text()

    expect(body).toMatch(/^data:\{"type":"response.created".*\}\r\n\r\ndata:\{/)
    expect(body).not.toContain('event:')
  })

  test('U+0000 and lone surrogates arrive as they were scripted', async () => {
    provider.script([textDeltas(['a\u0000', '\uD83D', '\uDE00'])])

    const frames = await framesOf(await askResponses(provider))

    expect(
      frames.flatMap(({ json }) => (json['type'] === 'response.output_text.delta' ? [json['delta']] : [])),
    ).toEqual(['a\u0000', '\uD83D', '\uDE00'])
  })
})

describe('keys', () => {
  test('401 without a key, and with another than the accepted ones', async () => {
    await using strict = await startFakeProvider({ apiKeys: ['sk-good'] })
    strict.respond(() => text('hi'))

    const none = await askResponses(strict, {}, { key: null })
    const wrong = await askResponses(strict, {}, { key: 'sk-bad' })
    const good = await askResponses(strict, {}, { key: 'sk-good' })

    expect([none.status, wrong.status, good.status]).toEqual([401, 401, 200])
    await good.text()
  })

  test('none is needed when requests are not checked', async () => {
    await using open = await startFakeProvider({ validate: false })
    open.respond(() => text('hi'))

    const response = await askResponses(open, { input: [{ role: 'user', content: 'x', agent: 'A' }] }, { key: null })

    expect(response.status).toBe(200)
    await response.text()
  })
})

describe('files', () => {
  const authorization = 'Bearer sk-test'

  test('are uploaded, looked up, read and deleted', async () => {
    const form = new FormData()
    form.set('purpose', 'user_data')
    form.set('file', new File(['%PDF-1'], 'rechnung ä.pdf', { type: 'application/pdf' }))
    const url = `${provider.baseUrl}/files`

    const uploaded: unknown = await (
      await fetch(url, { method: 'POST', body: form, headers: { authorization } })
    ).json()
    const id = String(pick(uploaded, 'id'))
    const found: unknown = await (await fetch(`${url}/${id}`, { headers: { authorization } })).json()
    const content = await (await fetch(`${url}/${id}/content`, { headers: { authorization } })).text()
    const file = provider.files.all[0]
    const deleted: unknown = await (
      await fetch(`${url}/${id}`, { method: 'DELETE', headers: { authorization } })
    ).json()
    const gone = await fetch(`${url}/${id}`, { headers: { authorization } })

    expect(uploaded).toMatchObject({ object: 'file', filename: 'rechnung ä.pdf', bytes: 6, status: 'processed' })
    expect(found).toMatchObject({ id, purpose: 'user_data' })
    expect(content).toBe('%PDF-1')
    expect(file).toMatchObject({ id, contentType: 'application/pdf' })
    expect(deleted).toEqual({ id, object: 'file', deleted: true })
    expect([gone.status, provider.files.deleted]).toEqual([404, [id]])
  })

  test('400 for an upload without a file, 401 without a key', async () => {
    const form = new FormData()
    form.set('purpose', 'user_data')

    const empty = await fetch(`${provider.baseUrl}/files`, { method: 'POST', body: form, headers: { authorization } })
    const anonymous = await fetch(`${provider.baseUrl}/files`, { method: 'POST', body: form })

    expect([empty.status, anonymous.status]).toEqual([400, 401])
  })
})

test('paths that the provider does not have are 404 and recorded', async () => {
  const response = await post(provider, '/traces/ingest', {})

  expect(response.status).toBe(404)
  expect(provider.requests.map(({ api }) => api)).toEqual(['other'])
})

test('a body that is no JSON object is 400', async () => {
  expect((await post(provider, '/responses', '{"model":')).status).toBe(400)
})

test('closing ends open answers and frees the port', async () => {
  provider.script([[text('hi'), stall()]])
  const reader = readerOf(await askResponses(provider))
  await reader.until('output_text.delta')
  expect(provider.connections).toBe(1)

  await provider.close()
  await provider.close()

  await expect(reader.rest()).rejects.toThrow('terminated')
  expect([provider.connections, provider.aborted]).toEqual([0, 0])
  const socket = connect(Number(new URL(provider.url).port), '127.0.0.1')
  const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException]
  expect(error.code).toBe('ECONNREFUSED')
})
