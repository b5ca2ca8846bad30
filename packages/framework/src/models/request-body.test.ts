import {
  Agent,
  codeInterpreterTool,
  fileSearchTool,
  hostedMcpTool,
  imageGenerationTool,
  type Model,
  type ModelRequest,
  type ModelSettings,
  OpenAIResponsesModel,
  Runner,
  type Tool,
  tool,
  webSearchTool,
} from '@openai/agents'
import { describe, expect, test } from 'vitest'
import type { AgentTool } from '../agency/tool.ts'
import { requestBody, requestHeaders, type TurnRequest } from './request-body.ts'

type Json = Record<string, unknown>

function requestOf(more: Partial<ModelRequest> = {}): ModelRequest {
  return { input: [], modelSettings: {}, tools: [], handoffs: [], outputType: 'text', tracing: false, ...more }
}

/** The same request as ours. */
function turnOf({ systemInstructions, prompt, modelSettings, tools, handoffs, outputType }: ModelRequest): TurnRequest {
  return {
    instructions: systemInstructions,
    prompt,
    settings: modelSettings,
    tools: tools as unknown as readonly AgentTool[],
    handoffs,
    format: outputType === 'text' ? undefined : outputType,
  }
}

/** The body for a request, as JSON. The model of a prompt template counts unless the request says otherwise. */
function sentByUs(request: ModelRequest, name: string): Json {
  const model = request.prompt && !request.overridePromptModel ? undefined : name
  return JSON.parse(JSON.stringify(requestBody(turnOf(request), model, []))) as Json
}

/** What the SDK's own model would send, less what it leaves empty and how it is answered. */
async function sentBySdk(request: ModelRequest, name: string): Promise<Json> {
  let sent: Json = {}
  const create = (body: Json): never => {
    sent = body
    throw new Error('the request is known')
  }
  const model = new OpenAIResponsesModel({ responses: { create } } as never, name)
  await expect(model.getStreamedResponse(request)[Symbol.asyncIterator]().next()).rejects.toThrow(
    'the request is known',
  )
  const { stream: _stream, ...body } = JSON.parse(JSON.stringify(sent)) as Json
  return Object.fromEntries(
    Object.entries(body).filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0)),
  )
}

async function expectSame(request: ModelRequest, name = 'gpt-test'): Promise<Json> {
  const { input, ...body } = sentByUs(request, name)
  expect(input).toEqual([])
  expect(body).toEqual(await sentBySdk(request, name))
  return body
}

/** The tools as the SDK's runner gives them to a model. */
async function toolsOf(...tools: Tool[]): Promise<Pick<ModelRequest, 'tools'>> {
  let asked: ModelRequest['tools'] = []
  const model: Model = {
    getResponse: (request) => {
      asked = request.tools
      throw new Error('the tools are known')
    },
    getStreamedResponse: () => {
      throw new Error('not used')
    },
  }
  const run = new Runner({ tracingDisabled: true }).run(new Agent({ name: 'A', model, tools }), 'hi')
  await expect(run).rejects.toThrow('the tools are known')
  return { tools: asked }
}

const parameters = { type: 'object', properties: {}, required: [], additionalProperties: false } as const
const functionTool = (name: string, more: object = {}): Tool =>
  tool({ name, description: name, parameters, strict: true, execute: () => '', ...more } as never) as Tool

const TOOLS: Record<string, Tool[]> = {
  'web search': [webSearchTool()],
  'web search with every option': [
    webSearchTool({
      name: 'look_up',
      userLocation: { type: 'approximate', city: 'Rome' },
      filters: { allowedDomains: ['example.com'] },
      searchContextSize: 'high',
      externalWebAccess: false,
      searchContentTypes: ['image'],
      imageSettings: { maxResults: 2, caption: true },
    } as never),
  ],
  'the older web search': [
    hosted({ type: 'web_search_preview', name: 'web', user_location: { type: 'approximate' }, x: 1 }),
  ],
  'file search': [
    fileSearchTool(['vs_1'], { maxNumResults: 3, includeSearchResults: true, rankingOptions: { ranker: 'auto' } }),
  ],
  'file search by an older name': [hosted({ type: 'file_search', name: 'files', vector_store_id: 'vs_1' })],
  'code interpreter': [
    codeInterpreterTool({ includeOutputs: true, container: { type: 'auto', file_ids: ['file-1'] } }),
  ],
  'image generation': [imageGenerationTool({ size: '1024x1024', outputFormat: 'png', partialImages: 2 })],
  'a hosted tool server': [
    hostedMcpTool({
      serverLabel: 'docs',
      serverUrl: 'https://tools.example/mcp',
      authorization: 'token',
      allowedTools: ['read'],
      requireApproval: { never: { toolNames: ['read'] }, always: { toolNames: ['write'] } },
      onApproval: async () => ({ approve: true }),
      headers: { 'x-a': 'b' },
      serverDescription: 'Docs.',
    }),
  ],
  'a connector': [hostedMcpTool({ serverLabel: 'mail', connectorId: 'connector_gmail', authorization: 'token' })],
  'a hosted tool server without a word on approval': [
    hosted({ type: 'mcp', server_label: 'x', server_url: 'https://tools.example/mcp', name: 'hosted_mcp' }),
  ],
  'a tool of a kind that nobody knows yet': [hosted({ type: 'time_travel', name: 'tt', to: 1985 })],
}

function hosted(providerData: Json): Tool {
  return { type: 'hosted_tool', name: String(providerData['name']), providerData }
}

describe('what is sent to the Responses API is what the agents SDK would send', () => {
  test.each(Object.entries(TOOLS))('%s', async (_, tools) => {
    await expectSame(requestOf(await toolsOf(...tools)))
  })

  test.each<[NonNullable<ModelSettings['toolChoice']>, Tool[]]>([
    ['auto', []],
    ['none', [functionTool('add')]],
    ['required', [functionTool('add')]],
    ['add', [functionTool('add')]],
    ['web_search', [webSearchTool()]],
    ['image_generation', [imageGenerationTool()]],
    ['mcp', [hostedMcpTool({ serverLabel: 'x', serverUrl: 'https://tools.example/mcp' })]],
  ])('tool_choice %s', async (toolChoice, tools) => {
    const request = requestOf({ ...(await toolsOf(...tools)), modelSettings: { toolChoice, parallelToolCalls: false } })
    if (tools.length > 0) return void (await expectSame(request))
    expect(sentByUs(request, 'gpt-test')).not.toHaveProperty('tool_choice')
  })

  test.each<[string, ModelSettings]>([
    ['numbers', { temperature: 0, topP: 0.5, maxTokens: 7, truncation: 'auto', store: false }],
    ['reasoning from two places', { reasoning: { effort: 'low' }, providerData: { reasoning: { summary: 'auto' } } }],
    ['text from two places', { text: { verbosity: 'low' }, providerData: { text: { format: { type: 'text' } } } }],
    ['caches', { promptCacheRetention: 'in-memory', promptCacheOptions: { key: 'k' } as never }],
    ['context', { contextManagement: [{ type: 'compaction', compactThreshold: 5 }] }],
    [
      'members of the body',
      { providerData: { metadata: { a: 'b' }, extra_body: { user: 'x', metadata: { c: 'd' } } } },
    ],
    ['what is for the HTTP request alone', { providerData: { extra_headers: { a: 'b' }, extra_query: { c: 'd' } } }],
    ['the same in camelCase', { providerData: { extraHeaders: { a: 'b' }, extraQuery: {}, extraBody: { user: 'x' } } }],
  ])('settings: %s', async (_, modelSettings) => {
    await expectSame(requestOf({ modelSettings }))
  })

  test.each([false, true])('a prompt template; a model of the agent: %s', async (overridePromptModel) => {
    const variables = { who: 'Ada', note: { type: 'input_text', text: 'hi' } as const }
    const prompt = { promptId: 'pmpt_1', version: '3', variables }
    const body = await expectSame(requestOf({ prompt, ...(overridePromptModel && { overridePromptModel }) }))
    expect(body).toEqual({
      ...(overridePromptModel && { model: 'gpt-test' }),
      prompt: { id: 'pmpt_1', version: '3', variables },
    })
  })

  test.each(['', ' \n', 'Be kind.'])('instructions %j', async (systemInstructions) => {
    await expectSame(requestOf({ systemInstructions }))
  })

  test('handoffs and a schema of the output', async () => {
    const handoff = {
      toolName: 'transfer_to_B',
      toolDescription: 'B',
      inputJsonSchema: parameters as never,
      strictJsonSchema: true,
    }
    const schema = { type: 'object' as const, properties: {}, required: [], additionalProperties: false as const }
    const outputType = {
      type: 'json_schema',
      name: 'output',
      strict: true,
      schema,
    } satisfies ModelRequest['outputType']
    await expectSame(requestOf({ handoffs: [handoff], outputType, ...(await toolsOf(functionTool('add'))) }))
  })
})

test.each<Json>([
  { type: 'mcp', server_label: 'x', tunnel_id: 'tunnel_1', require_approval: 'never' },
  { type: 'image_generation', svg: true, frame_count: 3 },
])('members that the API has learned since are sent too: %j', async (tool) => {
  const request = requestOf(await toolsOf(hosted({ ...tool, name: 'named by the SDK' })))

  expect(sentByUs(request, 'gpt-test')['tools']).toEqual([tool])
})

test.each(['extraHeaders', 'extra_headers'])('%s are headers, and nothing else is', (name) => {
  const providerData = { [name]: { 'x-a': 'b', n: 1 }, metadata: { 'x-c': 'd' } }

  expect(requestHeaders({ providerData })).toEqual({ 'x-a': 'b' })
})
