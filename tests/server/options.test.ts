import {
  Agency,
  Agent,
  ask,
  chain,
  FileTokenStore,
  handoff,
  McpConnections,
  MCPServerOAuth,
  MCPServerStreamableHttp,
  messageTool,
  tool,
} from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import { createApp, loadConfig, modelAccess, type ServerOptions, toolsOpenApi } from '@bureau/server'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { z as zod3 } from 'zod/v3'
import { text } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

const { solo } = soloAgency()

function create(options: ServerOptions, env: Record<string, string> = {}) {
  return createApp({ logLevel: 'silent', ...options }, loadConfig(env))
}

describe('createApp', () => {
  test('says where an agency comes from that another copy of the framework has made', async () => {
    const foreign = { [Symbol.for('@bureau/framework')]: '/elsewhere/node_modules/@bureau/framework' }

    await expect(create({ agencies: { shop: foreign as never } })).rejects.toThrow(
      /^runServer.*agencies\.shop.*is made by another copy of @bureau\/framework, in \/elsewhere\/node_modules/s,
    )
  })

  test.each(['tool', 'docs', 'guide', 'llms.txt', 'openapi.json', 'auth', 'healthz', 'v1', 'get_completion_v2'])(
    'refuses the reserved agency name "%s" and says why',
    async (name) => {
      await expect(create({ agencies: { [name]: solo } })).rejects.toThrow(`"${name}" is the name of a server route`)
    },
  )

  test('lists every problem at once', async () => {
    const agencies = { docs: solo, 'a/b': solo, 'my agency': solo, my_agency: solo }

    await expect(create({ agencies })).rejects.toThrow(/docs[^]*a\/b[^]*two agencies are named "my_agency"/)
  })

  test.each<[string, () => unknown, string]>([
    ['returns nothing', () => undefined, 'agencies: "solo" is a function that does not return an Agency.'],
    ['returns something else', () => solo.entryPoint, 'agencies: "solo" is a function that does not return an Agency.'],
    ['is async', async () => solo, 'agencies: "solo" is a function that does not return an Agency.'],
    [
      'throws',
      () => {
        throw new RangeError('too far')
      },
      'agencies: "solo" is a function that throws RangeError: too far.',
    ],
  ])('names the agency whose function %s', async (_, make, message) => {
    await expect(create({ agencies: { solo: make as () => Agency } })).rejects.toThrow(new ConfigError(message))
  })

  test('needs something to serve', async () => {
    await expect(create({})).rejects.toThrow('Nothing to serve')
  })

  test('an empty name becomes "agency", spaces become underscores, and a function makes its agency once', async () => {
    let made = 0
    const make = (): Agency => {
      made++
      return solo
    }
    const server = await startTestServer({ agencies: { '': make, 'my agency': solo } })
    server.provider.respond(() => text('ok'))

    expect((await server.post('/agency/get_response', { message: 'hi' })).status).toBe(200)
    expect((await server.get('/agency/get_metadata')).status).toBe(200)
    expect((await server.get('/my_agency/get_metadata')).status).toBe(200)
    expect(made).toBe(1)
  })
})

describe('an option that is not known is refused, with the one that is meant', () => {
  const { entryPoint } = solo

  test.each<[string, object, string]>([
    ['token', { app_token_env: 'X' }, 'runServer: there is no option "app_token_env". Did you mean "appTokenEnv"?'],
    ['realtime', { realtimeOptions: { idle_ms: 1 } }, 'Did you mean "realtimeOptions.idleMs"?'],
    ['AG-UI', { aguiReasonning: false }, 'Did you mean "aguiReasoning"?'],
    ['egress', { egress: { allowed: [] } }, 'there is no option "egress.allowed"'],
    ['metrics', { metrics: { pat: '/m' } }, 'Did you mean "metrics.path"?'],
    ['metrics as a path', { metrics: '/m' }, 'runServer: metrics: must be a boolean or an object, not a string'],
    ['OAuth', { oauthUserID: () => 'u' }, 'Did you mean "oauthUserId"?'],
    ['a negative time', { drainMs: -1 }, 'runServer: drainMs: '],
    ['a list that is none', { corsOrigins: '*' }, 'runServer: corsOrigins: '],
    ['an origin with a path', { corsOrigins: ['https://a.com/'] }, 'corsOrigins.0: must be "*", or an origin'],
    ['an origin without a scheme', { corsOrigins: ['a.com'] }, 'corsOrigins.0: must be "*", or an origin'],
    ['an address that is none', { serverUrl: 'a.com' }, 'serverUrl: must be an http: or https: address'],
    ['no name of a variable', { appTokenEnv: '' }, 'appTokenEnv: must be the name of a variable'],
    ['no agency of tokens', { oauthTokenPath: { sole: '/tmp' } }, 'oauthTokenPath: there is no agency "sole".'],
    [
      'turn detection',
      { realtimeOptions: { turnDetection: { silenceDurationMs: 1 } } },
      'Did you mean "realtimeOptions.turnDetection.silence_duration_ms"?',
    ],
    ['no agency', { agencies: { solo: entryPoint } }, 'runServer: agencies.solo: must be an Agency'],
  ])('of a server: %s', async (_, options, message) => {
    await expect(create({ agencies: { solo }, ...options })).rejects.toThrow(message)
  })

  const parameters = z.object({})
  const execute = (): string => ''
  const t = { name: 't', description: '', parameters, execute }
  const options = { name: 'A', instructions: 'x' }
  const declared = { name: 's', url: 'https://s.test' }

  test.each<[string, () => unknown, string]>([
    [
      'an agent for options',
      () => new Agency(entryPoint as never),
      'Agency: expected an object of options ({ name, entry',
    ],
    ['agency', () => new Agency({ entrypoint: entryPoint } as never), 'Did you mean "entryPoint"?'],
    ['agency time', () => new Agency({ entryPoint, runTimeoutMs: -5 }), 'Agency: runTimeoutMs: '],
    ['agency turns', () => new Agency({ entryPoint, maxTurns: 0 }), 'Agency: maxTurns: '],
    ['flow', () => new Agency({ entryPoint, flows: [[entryPoint, 'B' as never]] }), 'flows.0: must be [sender'],
    [
      'flow kind',
      () => new Agency({ entryPoint, flows: [[entryPoint, new Agent(options), 'handof' as never]] }),
      "flows.0: the third member is 'message'",
    ],
    [
      'agent',
      () => new Agent({ ...options, instruction: 'y' } as never),
      'Agent "A": there is no option "instruction".',
    ],
    [
      'model settings',
      () => new Agent({ ...options, modelSettings: { includeUsage: true } as never }),
      'there is no option "modelSettings.includeUsage". Did you mean "includeUsage"?',
    ],
    ['snake', () => new Agent({ ...options, modelSettings: { max_tokens: 1 } as never }), '"modelSettings.maxTokens"?'],
    [
      'reasoning',
      () => new Agent({ ...options, modelSettings: { reasoning: { efort: 'low' } as never } }),
      'Did you mean "modelSettings.reasoning.effort"?',
    ],
    [
      'retries',
      () => new Agent({ ...options, modelSettings: { retry: { maxRetries: -1 } } }),
      'modelSettings.retry.maxRetries: ',
    ],
    [
      'tool servers of an agent',
      () => new Agent({ ...options, mcpConfig: { include_server_in_tool_names: true } as never }),
      'Did you mean "mcpConfig.includeServerInToolNames"?',
    ],
    [
      'tool filter',
      () => new MCPServerOAuth({ ...declared, toolFilter: { blocked_tool_names: ['x'] } as never }),
      'Did you mean "toolFilter.blockedToolNames"?',
    ],
    [
      'tool filter of an open server',
      () => new MCPServerStreamableHttp({ url: declared.url, toolFilter: { blockedTools: ['x'] } as never }),
      'there is no option "toolFilter.blockedTools".',
    ],
    [
      'guardrail',
      () => new Agent({ ...options, inputGuardrails: [{ name: 'g', check: execute } as never] }),
      'inputGuardrails.0.execute: must be a function',
    ],
    [
      'guardrail that is a function',
      () => new Agent({ ...options, inputGuardrails: [() => true] as never }),
      'inputGuardrails.0: must be an object with a function execute',
    ],
    [
      'instructions',
      () => new Agent({ ...options, instructions: ['x'] as never }),
      'Agent "A": instructions: must be a string or a function, not an array',
    ],
    [
      'address of an open server',
      () => new MCPServerStreamableHttp({ url: 'localhost:3000' }),
      'MCPServerStreamableHttp: url must begin with http:// or https://: localhost:3000',
    ],
    [
      'what becomes of tool outputs',
      () => new Agent({ ...options, toolUseBehavior: 'stop_on_first' as never }),
      `Agent "A": toolUseBehavior: must be 'run_llm_again', 'stop_on_first_tool', {`,
    ],
    [
      'tools that end a turn',
      () => new Agent({ ...options, toolUseBehavior: { stopAtToolNames: 'save' } as never }),
      'Agent "A": toolUseBehavior.stopAtToolNames: must be an array, not a string',
    ],
    ['no name', () => new Agent({} as never), 'Agent: name: is missing; it must be a string'],
    [
      'no list',
      () => new Agent({ ...options, tools: t as never }),
      'Agent "A": tools: must be an array, not an object',
    ],
    [
      'a function for a tool',
      () => new Agent({ ...options, tools: [tool(t), () => 'x'] as never }),
      'Agent "A": tools.1 is a function. Make it a tool: tool({ name: "…"',
    ],
    [
      'no tool',
      () => new Agent({ ...options, tools: [undefined, 'web_search'] as never }),
      'tools.0 is undefined, not a tool. Make one by tool({ … }).\nAgent "A": tools.1 is "web_search", not a tool.',
    ],
    [
      'a tool of another SDK',
      () =>
        new Agent({
          ...options,
          tools: [{ description: 'x', inputSchema: z.object({}), execute: () => 'x' }] as never,
        }),
      'Agent "A": tools.0 is an object that tool() has not made. Write tool({ name: "…", description: "…", parameters: z.object({ … }), execute: … }).',
    ],
    [
      'an agent for a tool',
      () => new Agent({ ...options, tools: [entryPoint] as never }),
      'Connect agents by the flows of their agency',
    ],
    [
      'the name of an agent for a handoff',
      () => new Agent({ ...options, handoffs: ['B'] as never }),
      'Agent "A": handoffs.0 is "B", not an Agent.',
    ],
    [
      'an address for a tool server',
      () => new Agent({ ...options, mcpServers: [declared.url] as never }),
      'Agent "A": mcpServers.0 is "https://s.test", not a tool server. Write new MCPServerStreamableHttp(',
    ],
    [
      'parameters of zod 3',
      () => tool({ ...t, parameters: zod3.object({}) as never }),
      'tool "t": parameters is a schema of zod 3 and must be one of zod 4: npm install zod@4',
    ],
    [
      'an answer of zod 3',
      () => new Agent({ ...options, outputType: zod3.object({}) as never }),
      'Agent "A": outputType is a schema of zod 3 and must be one of zod 4',
    ],
    [
      'a date for a parameter',
      () => tool({ ...t, parameters: z.object({ stays: z.array(z.object({ until: z.date().optional() })) }) }),
      'tool "t": parameters.stays[].until is a date, which JSON does not have, so that no model can send one: take a text, such as',
    ],
    [
      'a number beyond those of JSON in an answer',
      () => new Agent({ ...options, outputType: z.object({ id: z.bigint() }) }),
      'Agent "A": outputType.id is a bigint, which JSON does not have, so that no model can send one',
    ],
    [
      'a set for a message',
      () => messageTool({ parameters: z.object({ tags: z.set(z.string()) }) }),
      'messageTool "send_message": parameters.tags is a set',
    ],
    [
      'a map for a handoff',
      () => handoff(entryPoint, { inputType: z.object({ by: z.map(z.string(), z.string()) }), onHandoff: () => {} }),
      'handoff to "Solo": inputType.by is a map',
    ],
    ['tool', () => tool({ ...t, timeout_ms: 1 } as never), 'tool "t": there is no option "timeout_ms". Did you mean'],
    ['tool time', () => tool({ ...t, timeoutMs: -1 }), 'tool "t": timeoutMs: '],
    ['message tool', () => messageTool({ parameter: parameters } as never), 'Did you mean "parameters"?'],
    ['token files', () => new FileTokenStore({ dir: '/tmp' } as never), 'FileTokenStore: there is no option "dir"'],
    [
      'tool server',
      () => new MCPServerOAuth({ name: 's', url: 'https://s.test', redirect_uri: '' } as never),
      'Did you mean "redirectUri"?',
    ],
    ['connections', () => new McpConnections({ idle_ms: 1 } as never), 'McpConnections: there is no option "idle_ms".'],
    [
      'models',
      () => modelAccess(loadConfig({}), { allowed: [] } as never),
      'modelAccess: there is no option "allowed".',
    ],
    ['descriptions', () => toolsOpenApi([], { url: 'x', tittle: 'y' } as never), 'Did you mean "title"?'],
  ])('of the framework and the server: %s', (_, make, message) => {
    expect(make).toThrow(ConfigError)
    expect(make).toThrow(message)
  })
})

test('a date that is made of what a model sends is a parameter like any other', async () => {
  const Folder = z.object({
    name: z.string(),
    get folders() {
      return z.array(Folder)
    },
  })
  const parameters = z.object({
    from: z.coerce.date(),
    to: z.preprocess((text) => new Date(String(text)), z.date()),
    at: z.iso.datetime().transform((text) => new Date(text)),
    either: z.union([z.string(), z.date()]),
    root: Folder,
  })

  expect(() => tool({ name: 't', description: '', parameters, execute: () => '' })).not.toThrow()
})

test.each<[string, () => unknown, string[]]>([
  [
    'an agent',
    () =>
      new Agent({
        name: 'A',
        instruction: 'Help.',
        tools: [7],
        handoffs: ['B'],
        mcpServers: ['https://s.test'],
        outputType: 7,
        model: 3,
        validationAttempts: -1,
      } as never),
    [
      '"instruction"',
      'tools.0 is 7',
      'handoffs.0 is "B"',
      'mcpServers.0 is',
      'outputType is',
      'model: must be',
      'validationAttempts:',
    ],
  ],
  [
    'an agency',
    () =>
      new Agency({
        entryPoint: [],
        maxTurn: 3,
        maxTurns: 0,
        flows: [
          [solo.entryPoint, 'B'],
          [solo.entryPoint, solo.entryPoint, 'call'],
        ],
      } as never),
    [
      '"maxTurn"',
      'maxTurns:',
      'entryPoint: name at least one agent',
      'flows.0: must be [sender,',
      'flows.1: the third member',
    ],
  ],
  [
    'the agents of an agency',
    () => new Agency({ entryPoint: ['A', 'A', '', 'B', 'B'].map((name) => new Agent({ name })) }),
    ['two agents are named "A"', 'two agents are named "B"', '"" is not fit'],
  ],
  [
    'the flows of an agency',
    () => {
      const [a, b] = [new Agent({ name: 'A' }), new Agent({ name: 'B' })]
      return new Agency({
        entryPoint: a,
        flows: [
          [a, a],
          [a, b],
          [a, b, 'message'],
        ],
      })
    },
    ['"A -> A" has the same agent on both ends', '"A -> B" (message) is listed twice'],
  ],
  [
    'a tool',
    () => tool({ name: 'a b', descripton: '', parameters: 7, timeoutMs: -1, execute: 1 } as never),
    [
      'a name has 1 to 64',
      '"descripton"',
      'description: is missing',
      'parameters must be a zod object',
      'timeoutMs:',
      'execute:',
    ],
  ],
])('every mistake in the options of %s is listed at once', (_, make, problems) => {
  expect(make).toThrow(ConfigError)
  for (const problem of problems) expect(make).toThrow(problem)
})

test.each([
  ['unknown options', [solo, 'hi', { apikey: 'sk' }], 'ask: there is no option "apikey". Did you mean "apiKey"?'],
  [
    'an agent in place of its agency',
    [new Agent({ name: 'A', instructions: '' }), 'hi'],
    'ask: agency: must be an Agency, not an Agent: new',
  ],
  ['no agency at all', [undefined, 'hi'], 'ask: agency: must be an Agency: new'],
  ['a message that is none', [solo, 5], 'ask: message: must be a text'],
  ['an agent that is not there', [solo, 'hi', { agent: 'Nope' }], 'ask: there is no agent "Nope". Available agents: '],
])('ask() rejects %s by name', async (_, given, problem) => {
  await expect(ask(...(given as Parameters<typeof ask>))).rejects.toThrow(problem)
})

describe('loadConfig', () => {
  test.each([
    ['OPENAI_BASE_URL', 'localhost:11434', 'https://api.openai.com/v1'], // reads like an address of another scheme
    ['OPENAI_BASE_URL', 'https:///v1', 'https://api.openai.com/v1'],
    ['OPENAI_BASE_URL', 'http://user:secret@gateway/v1', 'https://api.openai.com/v1'], // nobody would send them
    ['ANTHROPIC_BASE_URL', 'gateway/anthropic', 'https://gateway.example.com/v1'],
    ['OPENAI_COMPATIBLE_BASE_URL', 'ftp://user:secret@gateway', 'https://gateway.example.com/v1'],
    ['REDIS_URL', 'http://user:secret@cache', 'redis://127.0.0.1:6379'],
    ['REDIS_URL', 'redis://', 'redis://127.0.0.1:6379'],
    ['REDIS_URL', 'localhost:6379', 'redis://127.0.0.1:6379'],
  ])('refuses %s=%s, which nobody can reach, and shows an example instead of it', (name, value, example) => {
    expect(() => loadConfig({ [name]: value })).toThrow(new ConfigError(`${name}: must be an address like ${example}.`))
  })

  test('takes addresses that can be reached', () => {
    const config = loadConfig({ OPENAI_BASE_URL: 'http://[::1]:11434/v1', REDIS_URL: 'rediss://user:secret@cache/2' })

    expect(config).toMatchObject({
      model: { baseUrl: 'http://[::1]:11434/v1' },
      redisUrl: 'rediss://user:secret@cache/2',
    })
  })

  test('takes empty variables as absent and reports every mistake', () => {
    expect(loadConfig({ OPENAI_BASE_URL: '' }).model.defaultModel).toBe('demo')
    expect(() => loadConfig({ OPENAI_BASE_URL: 'nonsense', OPENAI_API: 'soap' })).toThrow(
      /OPENAI_BASE_URL[^]*OPENAI_API|OPENAI_API[^]*OPENAI_BASE_URL/,
    )
  })

  test.each([
    [{ BUREAU_ALLOWED_HOSTS: '***' }, 'BUREAU_ALLOWED_HOSTS: "***" is no host'],
    [{ BUREAU_OAUTH_TOKEN_KEY: `${'ab'.repeat(32)},short` }, 'BUREAU_OAUTH_TOKEN_KEY: must be keys of 32 bytes'],
  ])('%j is refused at once', (environment, problem) => {
    expect(() => loadConfig(environment)).toThrow(problem)
  })

  test.each([
    ['no key', {}, 'demo'],
    ['a key', { OPENAI_API_KEY: 'sk' }, 'gpt-5-mini'],
    ['a base URL', { OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' }, 'gpt-5-mini'],
    ['production without a key', { NODE_ENV: 'production' }, 'gpt-5-mini'],
    ['a named model', { OPENAI_API_KEY: 'sk', BUREAU_MODEL: 'gpt-x' }, 'gpt-x'],
  ])('with %s, agents that name no model use %s', (_, env, model) => {
    expect(loadConfig(env as Record<string, string>).model.defaultModel).toBe(model)
  })
})

describe('Agency', () => {
  const agent = (name: string): Agent => new Agent({ name, instructions: name })

  test('is frozen, and so are its agents', () => {
    expect(Object.isFrozen(solo)).toBe(true)
    expect(Object.isFrozen(solo.entryPoint)).toBe(true)
    expect(() => Object.assign(solo.entryPoint, { instructions: 'other' })).toThrow('read only')
  })

  test('members of an agent that are undefined are absent', () => {
    const names = [
      'model',
      'instructions',
      'tools',
      'handoffs',
      'includeUsage',
      'toolUseBehavior',
      'validationAttempts',
    ]
    const given = { name: 'A', ...Object.fromEntries(names.map((name) => [name, undefined])) }

    expect(new Agent(given)).toEqual(new Agent({ name: 'A' }))
  })

  test('refuses two agents with one name, a flow to oneself, and a flow twice', () => {
    const [a, b] = [agent('A'), agent('B')]
    expect(() => new Agency({ entryPoint: a, agents: [agent('A')] })).toThrow('two agents are named "A"')
    expect(() => new Agency({ entryPoint: a, flows: [[a, a]] })).toThrow('same agent on both ends')
    expect(
      () =>
        new Agency({
          entryPoint: a,
          flows: [
            [a, b],
            [a, b],
          ],
        }),
    ).toThrow('listed twice')
  })

  test('chain makes the flows of a chain', () => {
    const [a, b, c] = [agent('A'), agent('B'), agent('C')]
    const agency = new Agency({ entryPoint: a, flows: chain(a, b, c) })

    expect(agency.recipientsOf('A')).toEqual([b])
    expect(agency.recipientsOf('B')).toEqual([c])
  })

  test('a handoff flow lets the conversation move', async () => {
    const [a, b] = [new Agent({ name: 'A', model: 'm' }), new Agent({ name: 'B', model: 'm' })]
    const agency = new Agency({ entryPoint: a, flows: [[a, b, 'handoff']] })

    expect(agency.handoffsFrom('A').map((handoff) => handoff.toolName)).toEqual(['transfer_to_B'])
    expect(agency.recipientsOf('A')).toEqual([])
  })

  test('refuses parameters that are no object', () => {
    const parameters = z.string() as never
    expect(() => tool({ name: 'x', description: '', parameters, execute: () => '' })).toThrow(
      'parameters must be a zod object',
    )
  })
})
