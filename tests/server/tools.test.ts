import { Agent, Agency, Tool, tool } from '@bureau/framework'
import { createApp, loadConfig } from '@bureau/server'
import { Validator } from '@seriousme/openapi-schema-validator'
import { tool as sdkTool, webSearchTool } from '@openai/agents'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type Json, startTestServer } from '../support/test-server.ts'

class Greeting extends Tool {
  readonly description = 'Greets somebody.'
  readonly parameters = z.object({
    name: z.string(),
    times: z.number().int().min(1).default(1),
    style: z.enum(['plain', 'loud']).optional(),
    address: z.object({ city: z.string(), zip: z.union([z.string(), z.number()]) }).optional(),
    tags: z.array(z.string()).optional(),
  })

  run(input: z.output<this['parameters']>): unknown {
    return { ...input, greeting: `Hello ${input.name}`.repeat(input.times) }
  }
}

class StrictGreeting extends Greeting {
  override readonly strict = true
}

const add = tool({
  name: 'add',
  description: 'Adds.',
  parameters: z.object({
    a: z.number(),
    b: z.number().default(10),
    message: z.union([z.string(), z.boolean()]).optional(),
  }),
  execute: async ({ a, b }) => a + b,
})

const sdkAdd = sdkTool({
  name: 'sdk_add',
  description: 'Adds.',
  parameters: z.object({ a: z.number(), nested: z.object({ b: z.number() }), kind: z.enum(['x', 'y']) }),
  execute: async ({ a, nested }) => ({ sum: a + nested.b }),
})

const loose = sdkTool({
  name: 'loose',
  description: 'Takes anything.',
  parameters: {
    type: 'object',
    properties: { n: { type: 'integer', default: 7 }, either: { anyOf: [{ type: 'string' }, { type: 'number' }] } },
    required: [],
    additionalProperties: true,
  },
  strict: false,
  execute: async (input) => input,
})

const entriesOf = (body: Json): [string, string][] =>
  body.detail.map((entry: Json) => [entry.type, entry.loc.join('.')])

describe('POST /tool/<name>', () => {
  test('200 a class-based tool under its class name: defaults, nested members, unions, lists', async () => {
    const server = await startTestServer({ tools: [Greeting] })
    const input = { name: 'Ada', address: { city: 'London', zip: 8 }, tags: ['x'] }

    const answer = await server.post('/tool/Greeting', input)

    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({ response: { ...input, times: 1, greeting: 'Hello Ada' } })
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
  })

  test("200 function tools, ours and the agents SDK's, with their results as JSON", async () => {
    const server = await startTestServer({ tools: [add, sdkAdd, loose] })

    const answers = [
      await server.post('/tool/add', { a: 1 }),
      await server.post('/tool/sdk_add', { a: 1, nested: { b: 2 }, kind: 'x' }),
      await server.post('/tool/loose', { other: [1, { deep: true }] }),
    ]

    expect(answers.map((answer) => answer.status)).toEqual([200, 200, 200])
    expect(answers.map((answer) => answer.body.response)).toEqual([
      11,
      { sum: 3 },
      { n: 7, other: [1, { deep: true }] },
    ])
  })

  test('200 a long text is cut with a note; 500 for a long result of another kind, which would be another one if cut', async () => {
    const long = 'x'.repeat(2_000_000)
    const described = { description: 'Says much.', parameters: z.object({}) }
    const text = tool({ ...described, name: 'text', execute: () => long })
    const list = tool({ ...described, name: 'list', execute: () => ({ list: [long] }) })
    const server = await startTestServer({ tools: [text, list] })

    const [cut, refused] = [await server.post('/tool/text', {}), await server.post('/tool/list', {})]

    expect(cut.status).toBe(200)
    expect(cut.body.response).toMatch(/^x{1048576}\n\[Cut: the output has 2000000 characters/)
    expect(refused.status).toBe(500)
    expect(refused.body.error).toBe('The result of the tool "list" is longer than 1048576 characters of JSON.')
  })

  const typed = z.object({
    count: z.number().int(),
    ratio: z.number(),
    sure: z.boolean(),
    name: z.string(),
    maybe: z.number().nullable(),
    list: z.array(z.number()),
    inner: z.object({ n: z.number(), word: z.string() }),
    either: z.union([z.string(), z.number()]),
    pair: z.union([z.object({ a: z.number() }), z.object({ a: z.string() })]),
  })
  const asText = {
    count: '3',
    ratio: ' -2.5e1 ',
    sure: 'True',
    name: '3',
    maybe: '4',
    list: ['1', 2, '3.5'],
    inner: { n: '+7', word: 'true' },
    either: '5',
    pair: { a: '6' },
  }
  const asMeant = {
    ...asText,
    count: 3,
    ratio: -25,
    sure: true,
    maybe: 4,
    list: [1, 2, 3.5],
    inner: { n: 7, word: 'true' },
  }
  class TypedTool extends Tool {
    readonly description = 'Repeats its input.'
    readonly parameters = typed
    run = (input: unknown): unknown => input
  }
  const jsonSchema = {
    type: 'object',
    properties: {
      count: { $ref: '#/$defs/count' },
      next: { oneOf: [{ $ref: '#' }, { type: 'null' }] },
      sizes: { type: 'object', additionalProperties: { type: 'number' } },
    },
    required: [],
    additionalProperties: true,
    $defs: { count: { type: ['integer', 'null'] } },
  } as const

  test.each([
    ['ours', tool({ name: 'ours', description: '', parameters: typed, execute: (it) => it }), asText, asMeant],
    ['of a class', TypedTool, asText, asMeant],
    [
      'of the agents SDK',
      sdkTool({ name: 'sdk', description: '', parameters: typed, execute: async (it) => it }),
      asText,
      asMeant,
    ],
    [
      'with a JSON Schema',
      sdkTool({
        name: 'schema',
        description: '',
        parameters: jsonSchema as never,
        strict: false,
        execute: async (it) => it,
      }),
      { count: '3', next: { count: '4', next: null }, sizes: { a: '1' }, unknown: '5' },
      { count: 3, next: { count: 4, next: null }, sizes: { a: 1 }, unknown: '5' },
    ],
  ])(
    '200 numbers and booleans that are sent as text are read as what the parameters want, by tools %s',
    async (_, each, input, response) => {
      const server = await startTestServer({ tools: [each] })

      const answer = await server.post(`/tool/${each.name}`, input)

      expect([answer.status, answer.body]).toEqual([200, { response }])
    },
  )

  test('200 a tool without parameters needs no body, and one without a result gives null', async () => {
    const noop = tool({
      name: 'noop',
      description: 'Does nothing.',
      parameters: z.object({}),
      execute: () => undefined,
    })
    const server = await startTestServer({ tools: [noop] })

    const bare = await fetch(`${server.url}/tool/noop`, { method: 'POST' })

    expect(await bare.json()).toEqual({ response: null })
    expect((await server.post('/tool/noop', {})).body).toEqual({ response: null })
  })

  test('200 outside a run: no user context, no run', async () => {
    const curious = tool({
      name: 'curious',
      description: 'Looks around.',
      parameters: z.object({}),
      execute: (_, { userContext, run, signal }) => ({ userContext, run, signal }),
    })
    const server = await startTestServer({ tools: [curious] })

    expect((await server.post('/tool/curious', {})).body.response).toEqual({ userContext: {}, run: null, signal: null })
  })

  test('unknown members are ignored by class-based tools unless they are strict, and refused by function tools', async () => {
    const server = await startTestServer({ tools: [Greeting, StrictGreeting, add, sdkAdd] })
    const sdkInput = { a: 1, nested: { b: 2, odd: 1 }, kind: 'x', extra: true }

    const lenient = await server.post('/tool/Greeting', { name: 'Ada', extra: true })
    const strict = await server.post('/tool/StrictGreeting', { name: 'Ada', extra: true, more: 1 })
    const ours = await server.post('/tool/add', { a: 1, extra: true })
    const theirs = await server.post('/tool/sdk_add', sdkInput)

    expect(lenient.status).toBe(200)
    expect(lenient.body.response).not.toHaveProperty('extra')
    expect(entriesOf(strict.body)).toEqual([
      ['extra_forbidden', 'body.extra'],
      ['extra_forbidden', 'body.more'],
    ])
    expect(ours.body.detail).toEqual([
      { type: 'extra_forbidden', loc: ['body', 'extra'], msg: expect.stringContaining('not permitted'), input: true },
    ])
    expect(entriesOf(theirs.body)).toEqual([
      ['extra_forbidden', 'body.extra'],
      ['extra_forbidden', 'body.nested.odd'],
    ])
  })

  test.each([
    ['Greeting', {}, [['missing', 'body.name']]],
    [
      'Greeting',
      { name: 5, times: 'x' },
      [
        ['string_type', 'body.name'],
        ['float_type', 'body.times'],
      ],
    ],
    [
      'Greeting',
      { name: 'A', address: { zip: true } },
      [
        ['missing', 'body.address.city'],
        ['union_error', 'body.address.zip'],
      ],
    ],
    ['Greeting', { name: 'A', style: 'odd' }, [['literal_error', 'body.style']]],
    ['Greeting', { name: 'A', tags: ['x', 5] }, [['string_type', 'body.tags.1']]],
    ['Greeting', { name: 'A', times: 0 }, [['value_error', 'body.times']]],
    ['add', { a: 'three' }, [['float_type', 'body.a']]],
    ['Greeting', { name: 'A', times: '1.5' }, [['int_type', 'body.times']]],
    ['Greeting', { name: 'A', times: '0' }, [['value_error', 'body.times']]],
    ['Greeting', { name: 'A', times: '' }, [['float_type', 'body.times']]],
    ['add', { a: 1, message: 5 }, [['union_error', 'body.message']]],
    [
      'sdk_add',
      {},
      [
        ['missing', 'body.a'],
        ['missing', 'body.nested'],
        ['missing', 'body.kind'],
      ],
    ],
    [
      'sdk_add',
      { a: 'x', nested: { b: null }, kind: 'z' },
      [
        ['float_type', 'body.a'],
        ['float_type', 'body.nested.b'],
        ['literal_error', 'body.kind'],
      ],
    ],
    [
      'loose',
      { n: 1.5, either: [] },
      [
        ['int_type', 'body.n'],
        ['string_type', 'body.either'],
        ['float_type', 'body.either'],
        ['union_error', 'body.either'],
      ],
    ],
  ])('422 %s refuses %j', async (name, input, entries) => {
    const server = await startTestServer({ tools: [Greeting, add, sdkAdd, loose] })

    const answer = await server.post(`/tool/${name}`, input)

    expect(answer.status).toBe(422)
    expect(entriesOf(answer.body)).toEqual(entries)
    expect(answer.body.error).toMatch(/^The request is not valid\./)
  })

  test.each([
    ['a list', '[1]', 'model_attributes_type'],
    ['a text', '"x"', 'model_attributes_type'],
    ['null', 'null', 'model_attributes_type'],
    ['no JSON', '{"a":', 'json_invalid'],
  ])('422 when the body is %s', async (_, body, type) => {
    const server = await startTestServer({ tools: [add, sdkAdd] })

    for (const name of ['add', 'sdk_add']) {
      const answer = await server.post(`/tool/${name}`, body)
      expect(answer.status).toBe(422)
      expect(answer.body.detail[0].type).toBe(type)
    }
  })

  test('422 when the body is not sent as JSON', async () => {
    const server = await startTestServer({ tools: [add] })

    expect((await server.post('/tool/add', '{"a":1}', { 'content-type': 'text/plain' })).status).toBe(422)
  })

  test.each([
    [new Error("ENOENT: no such file or directory, open '/srv/app/private/keys.json'")],
    [new Error('GET https://user:pass@api.example.com/v1/x?key=abc failed\n    at run (/srv/app/index.ts:5:1)')],
    [new Error('')],
    [{ secret: 'object' }],
    ['just a text'],
  ])('500 when a tool of any style fails with %s, whose words stay in the log', async (error: unknown) => {
    const fail = (): never => {
      throw error
    }
    const about = { description: 'Fails.', parameters: z.object({}), execute: fail }
    class FailingTool extends Tool {
      readonly description = 'Fails.'
      readonly parameters = z.object({})
      run = fail
    }
    const ours = tool({ ...about, name: 'ours' })
    const sdk = sdkTool({ ...about, name: 'sdk' })
    const throwing = sdkTool({ ...about, name: 'throwing', errorFunction: null })
    const server = await startTestServer({ tools: [ours, FailingTool, sdk, throwing] })

    for (const name of ['ours', 'FailingTool', 'sdk', 'throwing']) {
      const { status, body } = await server.post(`/tool/${name}`, {})
      const message = `The tool "${name}" failed.`
      expect([status, body]).toEqual([500, { Error: message, error: message, code: 'tool_failed' }])
    }
  })

  test('200 when a tool of the agents SDK has words of its own for its failures: they are its result', async () => {
    const broken = sdkTool({
      name: 'broken',
      description: 'Fails.',
      parameters: z.object({}),
      execute: async () => {
        throw new Error('secret')
      },
      errorFunction: () => 'There is no paper.',
    })
    const server = await startTestServer({ tools: [broken] })

    expect((await server.post('/tool/broken', {})).body).toEqual({ response: 'There is no paper.' })
  })

  test('500 when the result cannot be JSON, or takes longer than the tool may', async () => {
    const big = tool({ name: 'big', description: 'Counts.', parameters: z.object({}), execute: () => 10n })
    const slow = tool({
      name: 'slow',
      description: 'Waits.',
      parameters: z.object({}),
      timeoutMs: 20,
      execute: () => new Promise(() => {}),
    })
    const sdkSlow = sdkTool({
      name: 'sdk_slow',
      description: 'Waits.',
      parameters: z.object({}),
      timeoutMs: 20,
      execute: () => new Promise<never>(() => {}),
    })
    const server = await startTestServer({ tools: [big, slow, sdkSlow] })

    for (const [name, message] of [
      ['big', 'The tool "big" failed.'],
      ['slow', 'The tool "slow" took longer than 20 ms.'],
      ['sdk_slow', 'The tool "sdk_slow" took longer than 20 ms.'],
    ]) {
      const { status, body } = await server.post(`/tool/${name}`, {})
      expect([status, body]).toEqual([500, { Error: message, error: message, code: 'tool_failed' }])
    }
  })

  test('parameters may be checked and changed by code that waits', async () => {
    const known = tool({
      name: 'known',
      description: 'Takes what is known.',
      parameters: z.object({
        name: z.string().refine(async (name) => name === 'Ada', 'nobody knows this name'),
        length: z
          .string()
          .default('four')
          .transform(async (text) => text.length),
      }),
      execute: (input) => input,
    })
    const server = await startTestServer({ tools: [known] })

    const good = await server.post('/tool/known', { name: 'Ada' })
    const bad = await server.post('/tool/known', { name: 'Eve' })

    expect([good.status, good.body]).toEqual([200, { response: { name: 'Ada', length: 4 } }])
    expect([bad.status, bad.body.detail[0]]).toMatchObject([422, { loc: ['body', 'name'], input: 'Eve' }])
  })

  test.each<[string, Json, Json]>([
    [
      'a default within a union within a list',
      { shapes: [{ kind: 'circle' }] },
      { shapes: [{ kind: 'circle', r: 1 }] },
    ],
    [
      'unions within unions',
      {
        shapes: [
          { kind: 'box', size: { w: 2 } },
          { kind: 'box', size: null },
        ],
      },
      {
        shapes: [
          { kind: 'box', size: { w: 2, h: 3 } },
          { kind: 'box', size: null },
        ],
      },
    ],
    ['itself', { shapes: [], next: { shapes: [{ kind: 'circle', r: 5 }] } }, undefined],
  ])('200 parameters that hold %s', async (_, input, response = input) => {
    const Shapes: z.ZodType = z.object({
      shapes: z.array(
        z.discriminatedUnion('kind', [
          z.object({ kind: z.literal('circle'), r: z.number().default(1) }),
          z.object({
            kind: z.literal('box'),
            size: z.union([z.number(), z.null(), z.object({ w: z.number(), h: z.number().default(3) })]),
          }),
        ]),
      ),
      get next() {
        return Shapes.optional()
      },
    })
    const draw = tool({ name: 'draw', description: 'Draws.', parameters: Shapes as z.ZodObject, execute: (it) => it })
    const server = await startTestServer({ tools: [draw] })

    const answer = await server.post('/tool/draw', input)

    expect([answer.status, answer.body]).toEqual([200, { response }])
    expect((await new Validator().validate((await server.get('/openapi.json')).body)).valid).toBe(true)
  })

  test('a tool that waits keeps nobody waiting, whatever its style', async () => {
    const { promise, resolve } = Promise.withResolvers<string>()
    class Waiting extends Tool {
      readonly description = 'Waits.'
      readonly parameters = z.object({})

      async run(): Promise<string> {
        return promise
      }
    }
    const server = await startTestServer({ tools: [Waiting, add] })
    const begun = server.handled('/tool/Waiting')
    const waiting = server.post('/tool/Waiting', {})
    await begun

    const { body } = await server.post('/tool/add', { a: 1, b: 2 })
    resolve('waited')

    expect(body).toEqual({ response: 3 })
    expect((await waiting).body).toEqual({ response: 'waited' })
  })

  test('200 the first megabyte of a result of many, while others are answered', async () => {
    const huge = tool({
      name: 'huge',
      description: 'Says a lot.',
      parameters: z.object({}),
      execute: async () => 'x'.repeat(30_000_000),
    })
    const server = await startTestServer({ tools: [huge, add] })

    const answers = [server.post('/tool/huge', {}), server.post('/tool/add', { a: 1, b: 2 })]
    const [big, small] = await Promise.all(answers)

    expect(big!.body.response).toMatch(/^x{1048576}\n\[Cut: the output has 30000000 characters/)
    expect(small!.body).toEqual({ response: 3 })
  })

  test.each([
    [
      'refers to itself',
      () => {
        const circle: Record<string, unknown> = {}
        circle['self'] = circle
        return circle
      },
    ],
    [
      'cannot be written',
      () => ({
        toJSON() {
          throw new Error('broken at /srv/app/secret.ts')
        },
      }),
    ],
    ['is a promise that fails', () => Promise.reject(new Error('later'))],
    ['is a function', () => () => 'never called'],
    ['is a symbol', () => Symbol('odd')],
    ['says that it is nothing', () => ({ toJSON: () => undefined })],
  ])('500 when the result %s, and the server goes on', async (_, execute) => {
    const odd = tool({ name: 'odd', description: 'Is odd.', parameters: z.object({}), execute })
    const server = await startTestServer({ tools: [odd, add] })

    const answer = await server.post('/tool/odd', {})

    expect(answer.status).toBe(500)
    expect(answer.body).toEqual({ Error: expect.any(String), error: answer.body.Error, code: 'tool_failed' })
    expect(answer.text).not.toMatch(/\/srv|node_modules/)
    expect((await server.post('/tool/add', { a: 1 })).body.response).toBe(11)
  })

  test('404 an unknown tool, 405 another method, 401 without the token', async () => {
    const server = await startTestServer({ tools: [add], env: { APP_TOKEN: 'secret-token' } })
    const headers = { authorization: 'Bearer secret-token' }

    expect((await server.post('/tool/nope', {}, headers)).status).toBe(404)
    expect((await server.get('/tool/add', headers)).status).toBe(405)
    expect((await server.post('/tool/add', { a: 'wrong' })).status).toBe(401)
  })

  test('many calls at once do not see each other', async () => {
    const server = await startTestServer({ tools: [add] })

    const answers = await Promise.all(Array.from({ length: 50 }, (_, a) => server.post('/tool/add', { a, b: 1 })))

    expect(answers.map((answer) => answer.body.response)).toEqual(Array.from({ length: 50 }, (_, a) => a + 1))
  })
})

describe('a server of tools alone', () => {
  test('has a description and documents', async () => {
    const server = await startTestServer({ tools: [Greeting, add] })

    const { body } = await server.get('/openapi.json')

    expect(Object.keys(body.paths)).toEqual(['/mcp', '/tool/Greeting', '/tool/add', '/console/settings'])
    expect(Object.keys(body.components.schemas)).toEqual([
      'HTTPValidationError',
      'ValidationError',
      'McpRequest',
      'McpError',
      'Greeting',
      'addRequest',
      'ServerSettings',
      'SettingsLimit',
      'SettingsFeature',
    ])
    expect((await new Validator().validate(body)).valid).toBe(true)
    expect((await server.get('/docs')).status).toBe(200)
  })

  test.each([
    ['two tools of one name', [add, add], 'two tools are named "add"'],
    ['a tool that runs at the model provider', [webSearchTool()], '"web_search" runs at the model provider'],
    ['what is no tool', [add, null as never, {} as never], 'tools.1 is null, not a tool'],
    ['an object that is no tool', [{} as never], 'tools.0 is an object that tool() has not made. Write tool({'],
    [
      'a tool that cannot be called',
      [{ type: 'function', name: 'f' } as never],
      'tools: the tool "f" has no invoke().',
    ],
  ])('does not start with %s', async (_, tools, problem) => {
    await expect(createApp({ tools, logLevel: 'silent' }, loadConfig({}))).rejects.toThrow(problem)
  })
})

test('one tool serves agents and callers alike', async () => {
  const agent = new Agent({ name: 'Solo', instructions: 'x', model: 'demo', tools: [add] })
  const server = await startTestServer({ agencies: { solo: new Agency({ entryPoint: agent }) }, tools: [add] })

  expect((await server.post('/tool/add', { a: 1, b: 1 })).body.response).toBe(2)
  expect((await server.get('/solo/get_metadata')).body.metadata.totalTools).toBe(1)
})
