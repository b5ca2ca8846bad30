import { Agency, Agent, tool } from '@bureau/framework'
import type { Message } from '@bureau/protocol'
import { createClient, type Part, type StreamEvent } from '@bureau/client'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { cuttingFetch, eventsOf, memoryStorage } from '../support/broken-connections.ts'
import {
  hold,
  refusal,
  imageGeneration,
  reasoning,
  status,
  text,
  textDeltas,
  toolCall,
  webSearch,
  wholeText,
} from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
})

/** The CEO asks the Clerk, and hands over to the Boss. */
function shopAgency(): Agency {
  const common = { description: 'Works here.', instructions: 'Help.', model: 'gpt-test' }
  const clerk = new Agent({ ...common, name: 'Clerk', tools: [add] })
  const boss = new Agent({ ...common, name: 'Boss' })
  const ceo = new Agent({ ...common, name: 'CEO', handoffs: [boss] })
  return new Agency({ entryPoint: ceo, agents: [clerk, boss], flows: [[ceo, clerk]] })
}

const short = (parts: readonly Part[]): unknown[] =>
  parts.map(({ id, agent, parent, ...part }) => ({ ...part, agent, nested: parent !== null, hasId: id !== '' }))

describe('a client of a self-hosted server', () => {
  test('streams text, and its result has the messages and the usage', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([[text('Hello there')]])
    const run = createClient({ url: `${server.url}/solo/` }).stream('Hi')
    const pieces: string[] = []
    for await (const piece of run.text()) pieces.push(piece)

    expect(pieces).toEqual(['Hello', ' there'])
    expect(await run.result).toMatchObject({ status: 'completed', text: 'Hello there', usage: { request_count: 1 } })
    expect((await run.result).messages).toHaveLength(2)
    expect((await run.started).run).toBe((await run.result).run)
  })

  test('streams each message to the user, set apart by a blank line', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [add] }) })
    server.provider.script([[text('Let me add.'), toolCall('add', { a: 1, b: 2 })], textDeltas(['It ', 'is 3.'])])
    const run = createClient({ url: `${server.url}/solo` }).stream('How much is 1 + 2?')
    const pieces: string[] = []
    for await (const piece of run.text()) pieces.push(piece)

    expect(pieces.join('')).toBe('Let me add.\n\nIt is 3.')
    expect(pieces.slice(-2)).toEqual(['\n\nIt ', 'is 3.'])
  })

  test('streams a message that comes in one piece', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [add] }) })
    server.provider.script([[wholeText('Let me add.'), toolCall('add', { a: 1, b: 2 })], textDeltas(['It ', 'is 3.'])])
    const run = createClient({ url: `${server.url}/solo` }).stream('How much is 1 + 2?')
    const pieces: string[] = []
    for await (const piece of run.text()) pieces.push(piece)

    expect(pieces).toEqual(['Let me add.', '\n\nIt ', 'is 3.'])
  })

  test('streams a refusal of the model as its text', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([refusal('I refuse')])
    const run = createClient({ url: `${server.url}/solo` }).stream('Hi')
    const pieces: string[] = []
    for await (const piece of run.text()) pieces.push(piece)

    expect(pieces).toEqual(['I', ' refuse'])
    expect(await run.result).toMatchObject({ status: 'completed', text: 'I refuse' })
  })

  test('streams a message that comes in one piece, as that of a guardrail', async () => {
    const quiet = {
      name: 'quiet',
      execute: async () => ({ tripwireTriggered: true, outputInfo: 'Ask something else.' }),
    }
    const server = await startTestServer({ agencies: soloAgency({ inputGuardrails: [quiet] }) })
    const run = createClient({ url: `${server.url}/solo` }).stream('Hi')
    const pieces: string[] = []
    for await (const piece of run.text()) pieces.push(piece)

    expect(pieces).toEqual(['Ask something else.'])
    expect(await run.result).toMatchObject({ text: 'Ask something else.' })
  })

  test('keeps the history of each chat, and none without a chat', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('Yes.'))
    const histories = new Map<string, readonly Message[]>()
    const client = createClient({ url: `${server.url}/solo`, histories })
    await client.stream({ message: 'One', chat: 'a' }).result
    await client.stream({ message: 'Two', chat: 'a' }).result
    await client.stream('Three').result

    const sent = server.provider.modelRequests.map(({ body }) => (body['input'] as unknown[]).length)
    expect(sent).toEqual([1, 3, 1])
    expect([...histories].map(([chat, messages]) => [chat, messages.length])).toEqual([['a', 4]])
  })

  test('shows tools, nested agents, thoughts and pictures as parts', async () => {
    const server = await startTestServer({ agencies: { shop: shopAgency() } })
    server.provider.script([
      [reasoning({ summary: ['Hm.'] }), toolCall('send_message', { recipient_agent: 'Clerk', message: 'Add!' })],
      [toolCall('add', { a: 1, b: 2 })],
      [text('Three.')],
      [webSearch('boots'), imageGeneration('aGk='), text('It is three.')],
    ])
    const run = createClient({ url: `${server.url}/shop` }).stream('Hi')
    const { text: answer } = await run.result

    expect(answer).toBe('It is three.')
    const [thought, asked, ...rest] = short(run.parts)
    expect(thought).toMatchObject({ type: 'reasoning', text: 'Hm.', state: 'done', agent: 'CEO', nested: false })
    expect(asked).toMatchObject({ type: 'agent', name: 'Clerk', agent: 'CEO', output: 'Three.', state: 'done' })
    expect(asked).toMatchObject({ input: { recipient_agent: 'Clerk', message: 'Add!' }, nested: false })
    expect(rest).toMatchObject([
      { type: 'tool', name: 'add', input: { a: 1, b: 2 }, output: '3', state: 'done', agent: 'Clerk', nested: true },
      { type: 'text', text: 'Three.', agent: 'Clerk', nested: true },
      { type: 'tool', name: 'web_search_call', state: 'done', agent: 'CEO' },
      { type: 'file', mediaType: 'image/png', data: 'aGk=', agent: 'CEO' },
      { type: 'text', text: 'It is three.', agent: 'CEO', nested: false },
    ])
    const inside = run.parts.find((part) => part.type === 'tool' && part.name === 'add')
    expect(inside?.parent).toBe(run.parts[1]?.id)
  })

  test('what a tool emits is an event and a part, and arguments grow', async () => {
    const tell = tool({
      name: 'tell',
      description: 'Tells.',
      parameters: z.object({ what: z.string() }),
      execute: (_input, { run }) => {
        run?.emit({ type: 'progress', percent: 50 })
        return 'told'
      },
    })
    const server = await startTestServer({ agencies: soloAgency({ tools: [tell] }) })
    server.provider.script([[toolCall('tell', { what: 'something' })], [text('Done.')]])
    const run = createClient({ url: `${server.url}/solo` }).stream('Hi')
    const inputs = new Set<unknown>()
    for await (const event of run) {
      const [part] = run.parts
      if (part?.type === 'tool') inputs.add(part.input)
      if (event.type === 'custom')
        expect(event).toMatchObject({ name: 'progress', data: { percent: 50 }, agent: 'Solo' })
    }

    expect(run.parts).toContainEqual(expect.objectContaining({ type: 'custom', name: 'progress' }))
    expect([...inputs].at(-1)).toEqual({ what: 'something' })
  })

  test('a cancelled run keeps what was complete, and its tools are stopped', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([[textDeltas(['Half', hold(gate), ' of it'])]])
    const run = createClient({ url: `${server.url}/solo` }).stream('Hi')
    for await (const _piece of run.text()) break
    await run.cancel()

    expect(await run.result).toMatchObject({ status: 'cancelled', text: '' })
    expect(run.parts).toMatchObject([{ type: 'text', text: 'Half', state: 'done' }])
    await run.cancel()
    gate.release()
  })

  test('leaving stops the run at the server', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([[textDeltas(['Half', hold(gate), ' of it'])]])
    const run = createClient({ url: `${server.url}/solo` }).stream('Hi')
    for await (const _piece of run.text()) break
    run.detach()

    await expect(run.result).rejects.toMatchObject({ code: 'detached', run: (await run.started).run })
    await server.provider.waitForAborts(1)
    gate.release()
  })

  test('a failed run rejects with its code, and leaves no message in the chat', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => status(400, { code: 'bad', message: 'No.' }))
    const histories = new Map<string, readonly Message[]>()
    const run = createClient({ url: `${server.url}/solo`, histories }).stream({ message: 'Hi', chat: 'a' })

    await expect(run.result).rejects.toMatchObject({ code: 'upstream_invalid_request', name: 'BureauError' })
    const text = run.text()
    await expect(text.next()).rejects.toMatchObject({ code: 'upstream_invalid_request' })
    expect(histories.get('a')).toEqual([])
  })

  test('files that cannot be used reject with the code that says why', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const run = createClient({ url: `${server.url}/solo` }).stream({
      message: 'Read this',
      body: { file_urls: { 'a.txt': 'http://127.0.0.1:1/a.txt' } },
    })

    await expect(run.result).rejects.toMatchObject({ code: 'attachment_blocked' })
  })

  test('401, 404 and 422 are errors with their status', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })
    const refused = (url: string, token: string, message: string): Promise<unknown> =>
      createClient({ url: `${server.url}/${url}`, token }).stream(message).result

    await expect(refused('solo', 'wrong', 'Hi')).rejects.toMatchObject({ code: 'unauthorized', status: 401 })
    await expect(refused('none', 'right', 'Hi')).rejects.toMatchObject({ code: 'route_not_found', status: 404 })
    await expect(refused('solo', 'right', '')).rejects.toMatchObject({ code: 'invalid_request', status: 422 })
  })

  test('503 is sent again when the server has room', async () => {
    const server = await startTestServer({ agencies: soloAgency(), maxConcurrentRuns: 1 })
    const gate = server.provider.gate()
    server.provider.script([[textDeltas(['Half', hold(gate)])], [text('Second')]])
    let refusals = 0
    const freeOnceRefused: typeof fetch = async (...request) => {
      const response = await fetch(...request)
      if (response.status === 503 && refusals++ === 0) gate.release()
      return response
    }
    const client = createClient({ url: `${server.url}/solo`, fetch: freeOnceRefused })
    const first = client.stream('One')
    await first.started

    expect((await client.stream('Two').result).text).toBe('Second')
    expect(refusals).toBeGreaterThan(0)
    expect(server.provider.modelRequests).toHaveLength(2)
  })
})

describe('a client of a self-hosted server, with resume', () => {
  /** What was told: text may come in fewer pieces than it was written in. */
  const heard = (events: readonly StreamEvent[]): { readonly words: string; readonly others: readonly string[] } => {
    const told = events.map((event) => (event.type === 'raw_response_event' ? event.data : { type: event.type }))
    return {
      words: told.map((event) => ('delta' in event ? event.delta : '')).join(''),
      others: told.filter((event) => !('delta' in event)).map(({ type }) => type),
    }
  }

  const setUp = async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const url = `${server.url}/solo`
    return {
      server,
      url,
      open: (fetch?: typeof globalThis.fetch) =>
        createClient({ url, resume: true, retryDelaysMs: [0, 5, 50], ...(fetch && { fetch }) }),
    }
  }

  test('cut anywhere, each event comes once, and the message is sent once', async () => {
    const { server, open } = await setUp()
    server.provider.respond(() => text('Hello there, traveller.'))
    const expected = heard(await eventsOf(open().stream('Hi')))
    const cuts = Array.from({ length: 20 }, (_, each) => each * 293)
    for (const cut of cuts) {
      const run = open(cuttingFetch(cut, cut % 700)).stream('Hi')
      expect(heard(await eventsOf(run))).toEqual(expected)
      expect((await run.result).text).toBe('Hello there, traveller.')
    }

    expect(server.provider.modelRequests).toHaveLength(1 + cuts.length)
  })

  test('a page that leaves before its first frame finds its run by the request, and by the chat', async () => {
    const { server, url } = await setUp()
    const gate = server.provider.gate()
    server.provider.script([[hold(gate, { before: 'headers' }), text('Here it is.')]])
    const storage = memoryStorage()
    const open = () => createClient({ url, resume: true, storage })
    const reached = server.handled('/solo/get_response_stream')
    const left = open().stream({ message: 'Hi', chat: 'mine', request: 'first' })
    await reached
    left.detach()

    await expect.poll(() => open().attach({ request: 'first' })).not.toBeNull()
    const found = await open().attach({ chat: 'mine' })
    expect(found!.message).toBe('Hi')
    gate.release()
    expect(await found!.result).toMatchObject({ status: 'completed', text: 'Here it is.' })
    expect(server.provider.modelRequests).toHaveLength(1)
    expect(storage.kept).toEqual(new Map())
  })

  test('after a reload the run of a chat is replayed, and cancelling and leaving are two things', async () => {
    const { server, url } = await setUp()
    const gates = [server.provider.gate(), server.provider.gate()] as const
    server.provider.script([[textDeltas(['a', hold(gates[0]), 'b'])], [textDeltas(['c', hold(gates[1]), 'd'])]])
    const storage = memoryStorage()
    const open = () => createClient({ url, resume: true, storage })
    const left = open().stream({ message: 'Hi', chat: 'mine' })
    for await (const _piece of left.text()) break
    left.detach()
    const found = await open().attach({ chat: 'mine' })
    gates[0].release()
    expect(await found!.result).toMatchObject({ status: 'completed', text: 'ab', run: (await left.started).run })
    expect(await open().attach({ chat: 'mine' })).toBeNull()

    const stopped = open().stream({ message: 'Hi', chat: 'mine' })
    for await (const _piece of stopped.text()) break
    await stopped.cancel()
    expect((await stopped.result).status).toBe('cancelled')
    gates[1].release()
    expect(storage.kept).toEqual(new Map())
  })
})

test('a client of an agency knows its agents and what they answer with', async () => {
  const forecast = new Agent({
    name: 'Forecast',
    model: 'gpt-test',
    outputType: z.object({ celsius: z.number() }),
  })
  const talker = new Agent({ name: 'Talker', model: 'gpt-test' })
  const weather = new Agency({ entryPoint: [forecast, talker] })
  const server = await startTestServer({ agencies: { weather } })
  server.provider.script([text('{"celsius":18}')])
  const client = createClient<typeof weather>({ url: `${server.url}/weather` })
  const { output } = await client.stream({ message: 'Paris?', agent: 'Forecast' }).result

  expectTypeOf(output).toEqualTypeOf<{ celsius: number }>()
  expect(output).toEqual({ celsius: 18 })
  // @ts-expect-error -- there is no such agent
  expect((await client.stream({ message: 'Paris?', agent: 'Nobody' }).result.catch((error) => error)).status).toBe(422)
})
