import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import { Agency, Agent, MCPServerOAuth, Tool, tool } from '@bureau/framework'
import { type ServerOptions } from '@bureau/server'
import { Validator } from '@seriousme/openapi-schema-validator'
import { tool as sdkTool } from '@openai/agents-core'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text } from '../support/fake-provider.ts'
import { startPrefixProxy } from '../support/prefix-proxy.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'

class WordCount extends Tool {
  readonly description = 'Counts words.'
  readonly parameters = z.object({
    text: z.string().describe('What to count.'),
    unit: z.enum(['words', 'lines']).default('words'),
  })

  run({ text }: { text: string }): number {
    return text.split(/\s+/).length
  }
}

const Tree: z.ZodType = z.object({
  name: z.string(),
  get children() {
    return z.array(Tree)
  },
})
const plant = tool({
  name: 'plant',
  description: 'Plants a tree.',
  parameters: z.object({ tree: Tree, at: z.object({ x: z.number() }) }),
  execute: () => 'planted',
})
const shout = sdkTool({
  name: 'shout',
  description: 'Shouts.',
  parameters: {
    type: 'object',
    properties: { what: { $ref: '#/$defs/word' } },
    required: ['what'],
    additionalProperties: false,
    $defs: { word: { type: 'string' } },
  } as never,
  strict: true,
  execute: async () => 'HEY',
})
const now = tool({ name: 'now', description: 'Tells the time.', parameters: z.object({}), execute: () => 'noon' })
const tools = [WordCount, plant, shout, now]

async function problemsOf(document: unknown): Promise<unknown> {
  const { valid, errors } = await new Validator().validate(document as Record<string, unknown>)
  return valid ? [] : errors
}

/** Every `$ref` of a document leads somewhere in it. */
function danglingRefs(document: Json): string[] {
  const refs = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1]!)
  return refs.filter((ref) => {
    const steps = ref.replace(/^#\//, '').split('/')
    return steps.reduce((node, step) => node?.[step], document) === undefined
  })
}

const named = (name: string): Agent => new Agent({ name, instructions: 'x', model: 'gpt-test' })
const protectedAgency = (): Agency => {
  const mcpServers = [new MCPServerOAuth({ name: 'notes', url: 'https://notes.example/mcp' })]
  return new Agency({ entryPoint: new Agent({ name: 'Solo', mcpServers }) })
}
const oauth = { agencies: { solo: protectedAgency() }, oauthUserId: () => 'ada' }
const RUNS = [
  '/solo/get_response',
  '/solo/get_response_stream',
  '/solo/cancel_response_stream',
  '/solo/runs/{run_id}/events',
  '/solo/runs',
  '/solo/agui',
  '/solo/get_metadata',
]
/** At the end of those of the agencies. */
const OPENAI = [
  '/openai/v1/models',
  '/openai/v1/models/{agency}',
  '/openai/v1/models/{agency}/{agent}',
  '/openai/v1/chat/completions',
  '/openai/v1/responses',
]
const PUSHES = '/a2a/{agency}/tasks/{task}/pushNotificationConfigs'
/** After those of OpenAI. */
const PROTOCOLS = [
  '/mcp',
  '/a2a/{agency}/.well-known/agent-card.json',
  '/.well-known/agent-card.json',
  '/a2a/{agency}',
  '/a2a/{agency}/message:send',
  '/a2a/{agency}/message:stream',
  '/a2a/{agency}/tasks',
  '/a2a/{agency}/tasks/{task}',
  PUSHES,
  `${PUSHES}/{config}`,
  '/a2a/{agency}/extendedAgentCard',
]
const AGUI = ['/solo/get_response_stream', '/solo/agui', '/solo/get_metadata']
const REALTIME = ['/solo/realtime', '/solo/realtime_ticket']
const SIGN_IN = ['/auth/callback', '/auth/status/{state}']
const CONSOLE = ['/console/runs', '/console/runs/{run_id}', '/console/settings', '/console/tools']

const KINDS: readonly { name: string; options: Partial<ServerOptions>; paths: readonly string[] }[] = [
  {
    name: 'several agencies',
    options: {
      agencies: { solo: new Agency({ entryPoint: named('A') }), two: new Agency({ entryPoint: named('B') }) },
    },
    paths: [...RUNS, ...RUNS.map((path) => path.replace('solo', 'two')), ...OPENAI, ...PROTOCOLS],
  },
  {
    name: 'responses that are kept',
    options: { agencies: soloAgency(), openai: { keepResponsesMs: 1_000 } },
    paths: [
      ...RUNS,
      ...OPENAI,
      ...['', '/cancel', '/input_items'].map((path) => `/openai/v1/responses/{id}${path}`),
      ...PROTOCOLS,
    ],
  },
  { name: 'tools alone', options: { tools: [now, plant] }, paths: ['/mcp', '/tool/now', '/tool/plant'] },
  { name: 'AG-UI', options: { agencies: soloAgency(), enableAgui: true }, paths: [...AGUI, ...OPENAI, ...PROTOCOLS] },
  {
    name: 'realtime',
    options: { agencies: soloAgency(), enableRealtime: true },
    paths: [...RUNS, ...OPENAI, ...PROTOCOLS, ...REALTIME],
  },
  { name: 'sign-ins', options: oauth, paths: [...RUNS, ...OPENAI, ...PROTOCOLS, ...SIGN_IN] },
  {
    name: 'everything that goes together',
    options: { ...oauth, tools: [now], enableAgui: true, enableRealtime: true, enableLogging: true },
    paths: [...AGUI, ...OPENAI, ...PROTOCOLS, ...REALTIME, '/tool/now', '/get_logs', ...SIGN_IN],
  },
  {
    name: 'neither MCP, A2A nor OpenAI’s APIs',
    options: { agencies: soloAgency(), mcp: false, a2a: false, openai: false },
    paths: RUNS,
  },
]

type Described = { readonly path: string; readonly method: string; readonly operation: Json }

function operationsOf(document: Json): Described[] {
  return Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )
}

describe.each(KINDS)('the description of a server with $name', ({ options, paths }) => {
  const start = async (env: Record<string, string> = {}) =>
    startTestServer({ ...options, logsDir: await temporaryFolder(), env })

  test('is valid, names its routes, and every reference and operation is one of a kind', async () => {
    const server = await start()

    const { body } = await server.get('/openapi.json')

    expect(await problemsOf(body)).toEqual([])
    expect(danglingRefs(body)).toEqual([])
    expect(Object.keys(body.paths)).toEqual([...paths, ...(options.agencies ? CONSOLE : ['/console/settings'])])
    const ids = operationsOf(body).map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('tells the truth: each operation is there, and needs the token where it says so', async () => {
    const server = await start({ APP_TOKEN: 'secret-token' })
    const { body } = await server.get('/openapi.json', { authorization: 'Bearer secret-token' })

    for (const { path: route, method, operation } of operationsOf(body)) {
      const answer = await fetch(server.url + route.replace(/\{\w+\}/, 'x'), { method })
      const needsToken = operation.security.length > 0

      expect([route, method, answer.status === 401]).toEqual([route, method, needsToken])
      expect([route, await answer.text()]).not.toEqual([route, expect.stringMatching(/Not Found|Method Not Allowed/)])
    }
  })
})

test('what may stand in the query of a protocol’s route is described, numbers as numbers', async () => {
  const server = await startTestServer({ agencies: soloAgency(), openai: { keepResponsesMs: 1_000 } })
  const { paths } = (await server.get('/openapi.json')).body
  const queryOf = (path: string): Json[] =>
    paths[path].get.parameters.filter((parameter: Json) => parameter.in === 'query')
  const namesOf = (path: string): string[] => queryOf(path).map(({ name }) => name)

  expect(namesOf('/openai/v1/responses/{id}')).toEqual(['stream', 'starting_after'])
  expect(namesOf('/openai/v1/responses/{id}/input_items')).toEqual(['limit', 'order', 'after'])
  expect(queryOf('/openai/v1/responses/{id}/input_items')[0].schema).toEqual({
    type: 'integer',
    minimum: 1,
    maximum: 100,
  })
  expect(namesOf('/a2a/{agency}/tasks')).toEqual(
    expect.arrayContaining(['contextId', 'status', 'pageSize', 'pageToken']),
  )
  expect(namesOf('/a2a/{agency}/tasks/{task}')).toEqual(['historyLength'])
})

describe('what is answered is what is described', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false })

  /** What is wrong with an answer, by the description of its operation. */
  function problemsWith(document: Json, operation: Json, answer: Json): unknown {
    const { schema } = operation.responses[200].content['application/json']
    const check = ajv.compile({ ...schema, components: document.components })
    return check(answer) ? [] : check.errors
  }

  test('answers, their usage, metadata and results of tools', async () => {
    const worker = new Agent({ name: 'Worker', instructions: 'x', model: 'gpt-test', tools: [now, plant] })
    const boss = new Agent({ name: 'Boss', instructions: 'x', quickReplies: ['Yes'], conversationStarters: ['Hi'] })
    const agency = new Agency({ entryPoint: boss, flows: [[boss, worker]] })
    const server = await startTestServer({ agencies: { solo: agency }, tools: [now] })
    server.provider.respond(() => text('Hello'))
    const { body } = await server.get('/openapi.json')
    const { paths } = body

    const run = await server.post('/solo/get_response', { message: 'hi', file_urls: {} })
    const metadata = await server.get('/solo/get_metadata')
    const tool = await server.post('/tool/now', {})

    expect([run.status, metadata.status, tool.status]).toEqual([200, 200, 200])
    expect(problemsWith(body, paths['/solo/get_response'].post, run.body)).toEqual([])
    expect(problemsWith(body, paths['/solo/get_metadata'].get, metadata.body)).toEqual([])
    expect(problemsWith(body, paths['/tool/now'].post, tool.body)).toEqual([])
  })
})

describe('GET /openapi.json', () => {
  test('of a server without a token says that pages of strangers are refused', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { body } = await server.get('/openapi.json')
    const { status } = await server.get('/solo/get_metadata', { origin: 'https://evil.example' })
    expect(status).toBe(403)
    expect(body.paths['/solo/get_metadata'].get.responses['403'].description).toContain('origin_not_allowed')

    const guarded = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'secret' } })
    const described = await guarded.get('/openapi.json', { authorization: 'Bearer secret' })
    expect(Object.keys(described.body.paths['/solo/get_metadata'].get.responses)).not.toContain('403')
  })

  test('is valid OpenAPI 3.1 with agencies, tools and logs, and every reference leads somewhere', async () => {
    const server = await startTestServer({
      agencies: soloAgency(),
      tools,
      enableLogging: true,
      logsDir: await temporaryFolder(),
    })

    const { body } = await server.get('/openapi.json')

    expect(await problemsOf(body)).toEqual([])
    expect(danglingRefs(body)).toEqual([])
    expect(body.openapi).toMatch(/^3\.1\./)
    expect(Object.keys(body.paths)).toEqual([
      '/solo/get_response',
      '/solo/get_response_stream',
      '/solo/cancel_response_stream',
      '/solo/runs/{run_id}/events',
      '/solo/runs',
      '/solo/agui',
      '/solo/get_metadata',
      ...OPENAI,
      ...PROTOCOLS,
      '/tool/WordCount',
      '/tool/plant',
      '/tool/shout',
      '/tool/now',
      '/get_logs',
      ...CONSOLE,
    ])
  })

  test('describes the request of AG-UI: what the protocol asks for, and what runs take besides', async () => {
    const server = await startTestServer({ agencies: soloAgency(), enableAgui: true })

    const { body } = await server.get('/openapi.json')
    const { requestBody } = body.paths['/solo/get_response_stream'].post

    expect(requestBody.content['application/json'].schema).toEqual({ $ref: '#/components/schemas/RunAgentInput' })
    const { required, properties } = body.components.schemas.RunAgentInput
    expect(required).toEqual(['threadId', 'runId', 'messages'])
    for (const field of ['parentRunId', 'state', 'chat_history', 'user_context', 'file_urls', 'client_config']) {
      expect(Object.keys(properties)).toContain(field)
    }
    expect((await server.post('/solo/get_response', { message: 'hi' })).status).toBe(404)
  })

  test('lets clients find every agency by its path to the metadata', async () => {
    const agencies = {
      one: new Agency({ entryPoint: named('A') }),
      'number two': new Agency({ entryPoint: named('B') }),
      'v1.2~x-y': new Agency({ entryPoint: named('C') }),
    }
    const server = await startTestServer({ agencies })

    const { body } = await server.get('/openapi.json')
    const found = Object.keys(body.paths).flatMap((route) => /^\/([^/]+)\/get_metadata$/.exec(route)?.[1] ?? [])

    expect(found).toEqual(['one', 'number_two', 'v1.2~x-y'])
    for (const name of found) expect((await server.get(`/${name}/get_metadata`)).status).toBe(200)
  })

  test('names operations, bodies and security as existing clients know them', async () => {
    const server = await startTestServer({ agencies: soloAgency(), tools: [WordCount, now] })

    const { body } = await server.get('/openapi.json')
    const run = body.paths['/solo/get_response'].post
    const count = body.paths['/tool/WordCount'].post

    expect(run).toMatchObject({
      operationId: 'handler_solo_get_response_post',
      summary: 'Solo Get Response',
      security: [{ HTTPBearer: [] }],
      requestBody: {
        required: true,
        content: { 'application/json': { schema: { $ref: '#/components/schemas/RunRequest' } } },
      },
    })
    expect(Object.keys(run.responses)).toEqual('200 400 401 403 408 409 413 422 429 500 503'.split(' '))
    expect(count).toMatchObject({ operationId: 'WordCount', summary: 'WordCount', description: 'Counts words.' })
    expect(body.components.schemas.WordCount.properties).toEqual({
      text: { type: 'string', description: 'What to count.' },
      unit: { type: 'string', enum: ['words', 'lines'], default: 'words' },
    })
    expect(body.components.securitySchemes).toEqual({ HTTPBearer: { type: 'http', scheme: 'bearer' } })
    for (const name of [
      'RunRequest',
      'ClientConfig',
      'CancelRequest',
      'HTTPValidationError',
      'ValidationError',
      'nowRequest',
    ]) {
      expect(Object.keys(body.components.schemas)).toContain(name)
    }
    expect(body.paths['/tool/now'].post.requestBody.required).toBe(false)
  })

  test.each([
    [{ host: '0.0.0.0', port: 8123 }, 'http://localhost:8123'],
    [{ host: '127.0.0.1', port: 8123 }, 'http://127.0.0.1:8123'],
    [{ serverUrl: 'https://agents.example.com/base' }, 'https://agents.example.com/base'],
    [{}, undefined],
  ])('says where the server is, and where nobody has said it, as the caller knows it: %j', async (options, url) => {
    const server = await startTestServer({ agencies: soloAgency(), ...options })

    expect((await server.get('/openapi.json')).body.servers).toEqual([{ url: url ?? server.url }])
  })

  test('says 400 where a protocol with a shape of its own for errors refuses a request', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const { paths } = (await server.get('/openapi.json')).body

    for (const path of ['/openai/v1/chat/completions', '/mcp', '/a2a/{agency}']) {
      expect(Object.keys(paths[path].post.responses)).toContain('400')
      expect(Object.keys(paths[path].post.responses)).not.toContain('422')
      expect((await server.post(path.replace('{agency}', 'solo'), '{')).status).toBe(400)
    }
  })

  test('holds no instructions and no keys', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const { text } = await server.get('/openapi.json')

    expect(text).not.toContain('secret instructions')
    expect(text).not.toContain('sk-server')
  })
})

describe('the documents', () => {
  test('need the token like every route, unless they are public', async () => {
    const env = { APP_TOKEN: 'secret-token' }
    const closed = await startTestServer({ agencies: soloAgency(), env })
    const open = await startTestServer({ agencies: soloAgency(), env, publicDocs: true })
    const pages = ['/openapi.json', '/docs', '/redoc', '/docs/assets/swagger-ui.css']

    for (const page of pages) {
      expect((await closed.get(page)).status).toBe(401)
      expect((await closed.get(page, { authorization: 'Bearer secret-token' })).status).toBe(200)
      expect((await open.get(page)).status).toBe(200)
    }
    expect((await open.get('/solo/get_metadata')).status).toBe(401)
  })

  test.each(['/openapi.json', '/docs/assets/swagger-ui.css', '/docs/assets/redoc.standalone.js', '/guide/streams.md'])(
    '%s comes compressed to clients that accept it, and as it is to others',
    async (page) => {
      const server = await startTestServer({ agencies: soloAgency() })
      const ask = async (accepted: string) => {
        const request = get(server.url + page, { headers: { 'accept-encoding': accepted }, agent: false })
        const [response] = (await once(request, 'response')) as [IncomingMessage]
        const { 'content-encoding': encoding, vary } = response.headers
        return { encoding, vary, body: await buffer(response) }
      }

      const plain = await ask('identity')
      const refused = await ask('br, gzip;q=0')
      const compressed = await Promise.all(['gzip', 'gzip, deflate, br', 'br;q=1.0, GZIP;q=0.5'].map(ask))

      expect(plain).toEqual({ encoding: undefined, vary: 'accept-encoding', body: expect.anything() })
      expect(refused.body.equals(plain.body)).toBe(true)
      for (const { encoding, vary, body } of compressed) {
        expect([encoding, vary]).toEqual(['gzip', 'accept-encoding'])
        expect(body.length).toBeLessThan(plain.body.length / 2)
        expect(gunzipSync(body).equals(plain.body)).toBe(true)
      }
    },
  )

  test('work behind a proxy that serves them under a path of its own', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const base = await startPrefixProxy(server.url, '/bureau/v2')

    for (const page of ['/docs', '/redoc']) {
      const html = await (await fetch(base + page)).text()
      const assets = [...html.matchAll(/(?:href|src)="([^":]+)"/g)].map((match) => new URL(match[1]!, base + page))
      expect(assets.length).toBeGreaterThan(1)
      for (const asset of assets) {
        expect(asset.pathname).toMatch(/^\/bureau\/v2\//)
        expect((await fetch(asset)).status).toBe(200)
      }
    }
    expect((await fetch(`${base}/openapi.json`)).status).toBe(200)
  })
})
