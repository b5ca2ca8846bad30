import { tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { errorEvent, incomplete, reasoning, refusal, text, toolCall } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'

/** The rules of the Open Responses specification (2026-04-24), each with what shows that it is kept. */

const lookUp = tool({
  name: 'look_up',
  description: 'Looks something up.',
  parameters: z.object({ key: z.string() }),
  execute: ({ key }) => `value of ${key}`,
})

const getWeather = { type: 'function', name: 'get_weather', parameters: { type: 'object', properties: {} } }

/** All that the specification knows as an event of a stream. */
const EVENTS = new Set([
  'response.created',
  'response.queued',
  'response.in_progress',
  'response.completed',
  'response.failed',
  'response.incomplete',
  'response.output_item.added',
  'response.output_item.done',
  'response.content_part.added',
  'response.content_part.done',
  'response.output_text.delta',
  'response.output_text.done',
  'response.output_text.annotation.added',
  'response.refusal.delta',
  'response.refusal.done',
  'response.reasoning.delta',
  'response.reasoning.done',
  'response.reasoning_summary_part.added',
  'response.reasoning_summary_part.done',
  'response.reasoning_summary_text.delta',
  'response.reasoning_summary_text.done',
  'response.function_call_arguments.delta',
  'response.function_call_arguments.done',
  'error',
])

/** Members of the resource, all of them required. */
const MEMBERS = [
  'id',
  'object',
  'created_at',
  'completed_at',
  'status',
  'incomplete_details',
  'model',
  'previous_response_id',
  'instructions',
  'output',
  'error',
  'tools',
  'tool_choice',
  'truncation',
  'parallel_tool_calls',
  'text',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'top_logprobs',
  'temperature',
  'reasoning',
  'usage',
  'max_output_tokens',
  'max_tool_calls',
  'store',
  'background',
  'service_tier',
  'metadata',
  'safety_identifier',
  'prompt_cache_key',
]

type Sse = { readonly event: string | null; readonly id: string | null; readonly data: string; readonly json: Json }

/** One stream with all that a run can have in it: several model requests, reasoning, a tool, a call for the client. */
async function eventful(include: readonly string[] = []): Promise<Sse[]> {
  const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }), openai: { strictResponses: true } })
  server.provider.respond(({ toolOutputs }) =>
    toolOutputs.length === 0
      ? [
          reasoning({ summary: ['Hm.'], content: 'Open thought.' }),
          text('Let me see.'),
          toolCall('look_up', { key: 'a' }),
        ]
      : [reasoning({ summary: ['Ah.'] }), text('Now the weather.'), toolCall('get_weather', {})],
  )
  const body = { model: 'solo', input: 'Hello', stream: true, tools: [getWeather], include }
  const stream = await (await server.stream('/openai/v1/responses', body)).all()
  expect(stream.response.headers.get('content-type')).toMatch(/^text\/event-stream/)
  return stream.frames.map((frame) => ({ ...frame, json: frame.data === '[DONE]' ? {} : JSON.parse(frame.data) }))
}

async function ending(script: Parameters<Awaited<ReturnType<typeof startTestServer>>['provider']['respond']>[0]) {
  const server = await startTestServer({ agencies: soloAgency() })
  server.provider.respond(script)
  const stream = await (await server.stream('/openai/v1/responses', { model: 'solo', input: 'x', stream: true })).all()
  return stream.frames.slice(0, -1).map(({ data }) => JSON.parse(data))
}

const ofType = (frames: readonly Sse[], type: string): Json[] =>
  frames.filter(({ event }) => event === type).map(({ json }) => json)

type Rule = { readonly rule: string; readonly check: (frames: readonly Sse[]) => void }

const STREAM_RULES: readonly Rule[] = [
  {
    rule: 'the name of an event is the type in its data, and there are no ids',
    check: (frames) => {
      expect(frames.slice(0, -1).every(({ event, json }) => event === json.type)).toBe(true)
      expect(frames.every(({ id }) => id === null)).toBe(true)
    },
  },
  {
    rule: 'the last thing is [DONE]',
    check: (frames) => expect(frames.at(-1)).toMatchObject({ event: null, data: '[DONE]' }),
  },
  {
    rule: 'there are no events but those of the specification',
    check: (frames) => expect(frames.slice(0, -1).filter(({ event }) => !EVENTS.has(event ?? ''))).toEqual([]),
  },
  {
    rule: 'sequence_number is on every event and rises',
    check: (frames) => {
      const numbers = frames.slice(0, -1).map(({ json }) => json.sequence_number)
      expect(numbers).toEqual(numbers.map((_, index) => index))
    },
  },
  {
    rule: 'a response begins with created and in_progress, and ends with one of completed, failed, incomplete, each once',
    check: (frames) => {
      const life = frames.flatMap(({ event }) =>
        /^response\.(?:created|in_progress|completed|failed|incomplete)$/.exec(event ?? '') ? [event] : [],
      )
      expect(life).toEqual(['response.created', 'response.in_progress', 'response.completed'])
      expect(frames.at(-2)!.event).toBe('response.completed')
    },
  },
  {
    rule: 'output_index counts over the whole response, from 0 and without gaps',
    check: (frames) =>
      expect(ofType(frames, 'response.output_item.added').map(({ output_index }) => output_index)).toEqual([
        0, 1, 2, 3, 4,
      ]),
  },
  {
    rule: 'an item: added, then its parts with their deltas between added and done, then done',
    check: (frames) => {
      for (const { output_index: index, item } of ofType(frames, 'response.output_item.added')) {
        const events = frames.filter(({ json }) => json.output_index === index).map(({ event }) => event!)
        expect(events[0]).toBe('response.output_item.added')
        expect(events.at(-1)).toBe('response.output_item.done')
        if (item.type !== 'message') continue
        expect(events[1]).toBe('response.content_part.added')
        expect(events.slice(-3, -1)).toEqual(['response.output_text.done', 'response.content_part.done'])
        expect(new Set(events.slice(2, -3))).toEqual(new Set(['response.output_text.delta']))
      }
    },
  },
  {
    rule: 'the deltas of a part are its text',
    check: (frames) => {
      for (const { item_id: id, text: whole } of ofType(frames, 'response.output_text.done')) {
        const deltas = ofType(frames, 'response.output_text.delta').filter(({ item_id }) => item_id === id)
        expect(deltas.map(({ delta }) => delta).join('')).toBe(whole)
      }
    },
  },
  {
    rule: 'every item has id, type and, where the schema has one, a status',
    check: (frames) => {
      for (const item of frames.at(-2)!.json.response.output) {
        expect(item).toMatchObject({ id: expect.any(String), type: expect.any(String) })
        if (item.type !== 'reasoning') expect(item.status).toBe('completed')
      }
    },
  },
  {
    rule: 'the output of the last event is that of the events before',
    check: (frames) =>
      expect(frames.at(-2)!.json.response.output).toEqual(
        ofType(frames, 'response.output_item.done').map(({ item }) => item),
      ),
  },
  {
    rule: 'an item is begun with the id and place with which it ends',
    check: (frames) => {
      const namesOf = (type: string): string[] =>
        ofType(frames, type).map(({ item, output_index }) => `${output_index} ${item.id}`)
      const [begun, done] = ['added', 'done'].map((name) => namesOf(`response.output_item.${name}`))
      expect(done).toEqual(begun)
    },
  },
  {
    rule: 'arguments of a function call come as deltas and, as a whole, in done',
    check: (frames) => {
      const [done] = ofType(frames, 'response.function_call_arguments.done')
      const deltas = ofType(frames, 'response.function_call_arguments.delta')
      expect(deltas.map(({ delta }) => delta).join('')).toBe(done.arguments)
    },
  },
]

describe('a stream', () => {
  test.each(STREAM_RULES)('$rule', async ({ check }) => {
    expect.hasAssertions()
    check(await eventful())
  })

  test('what the specification does not know is an item with a prefixed type, id and status, and never an event', async () => {
    const frames = await eventful(['bureau:steps'])

    const own = ofType(frames, 'response.output_item.done').filter(({ item }) => item.type.includes(':'))
    expect(own).toMatchObject([{ item: { type: 'bureau:tool_call', id: expect.any(String), status: 'completed' } }])
    expect(frames.slice(0, -1).filter(({ event }) => !EVENTS.has(event ?? ''))).toEqual([])
  })

  test('reasoning that is not summarized has the name of the specification', async () => {
    const [first] = ofType(await eventful(), 'response.reasoning.delta')

    expect(first).toMatchObject({ type: 'response.reasoning.delta', delta: 'Open thought.' })
  })

  test('an item that was cut off is incomplete, and so is the response', async () => {
    const events = await ending(() => incomplete('max_output_tokens', 'Half'))

    const { type, response } = events.at(-1)
    expect(type).toBe('response.incomplete')
    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })
    expect(response.output.at(-1).status).toBe('incomplete')
  })

  test('a refusal has events of its own', async () => {
    const events = await ending(() => refusal('I cannot.'))

    expect(
      events
        .filter(({ type }) => type === 'response.refusal.delta')
        .map(({ delta }) => delta)
        .join(''),
    ).toBe('I cannot.')
    expect(events.at(-1).response.output[0].content[0]).toMatchObject({ type: 'refusal', refusal: 'I cannot.' })
  })

  test('a failure is an error event and then response.failed', async () => {
    const events = await ending(() => errorEvent('server_error'))

    expect(events.slice(-2).map(({ type }) => type)).toEqual(['error', 'response.failed'])
  })
})

describe('a response', () => {
  const ask = async (body: object) => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('ok'))
    return (await server.post('/openai/v1/responses', { model: 'solo', input: 'x', ...body })).body
  }

  test('has every member, also those that nobody has sent', async () => {
    expect(Object.keys(await ask({})).toSorted()).toEqual(MEMBERS.toSorted())
  })

  test('repeats what was sent', async () => {
    const sent = {
      instructions: 'Be brief.',
      metadata: { a: 'b' },
      temperature: 0.5,
      top_p: 0.5,
      presence_penalty: 0.1,
      frequency_penalty: 0.2,
      parallel_tool_calls: false,
      max_output_tokens: 100,
      max_tool_calls: 3,
      truncation: 'auto',
      service_tier: 'flex',
      safety_identifier: 's',
      prompt_cache_key: 'k',
      tools: [{ ...getWeather, description: 'd', strict: false }],
      tool_choice: 'none',
    }

    expect(await ask(sent)).toMatchObject(sent)
  })

  test('has a usage with both details', async () => {
    expect((await ask({})).usage).toMatchObject({
      input_tokens: expect.any(Number),
      output_tokens: expect.any(Number),
      total_tokens: expect.any(Number),
      input_tokens_details: { cached_tokens: expect.any(Number) },
      output_tokens_details: { reasoning_tokens: expect.any(Number) },
    })
  })

  test('is completed at the time at which it is completed', async () => {
    const { created_at, completed_at } = await ask({})

    expect(completed_at).toBeGreaterThanOrEqual(created_at)
  })
})
