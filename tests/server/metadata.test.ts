import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Agency, Agent, type AgentOptions, MCPServerStreamableHttp, messageTool, Tool, tool } from '@bureau/framework'
import { codeInterpreterTool, fileSearchTool, hostedMcpTool, webSearchTool } from '@openai/agents'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { closeAfterTest, type Json, soloAgency, startTestServer } from '../support/test-server.ts'
import { startHttpToolServer } from '../support/tool-server.ts'

const echo = tool({
  name: 'echo',
  description: 'Echoes.',
  parameters: z.object({ text: z.string().describe('What to say.') }),
  execute: ({ text }) => text,
})

class WordCount extends Tool {
  readonly description = 'Counts words.'
  readonly parameters = z.object({ text: z.string() })

  run({ text }: { text: string }): number {
    return text.split(/\s+/).length
  }
}

function agent(name: string, options: Partial<AgentOptions> = {}): Agent {
  return new Agent({ name, instructions: `You are ${name}.`, model: 'gpt-test', ...options })
}

async function metadataOf(agency: Agency, options: Parameters<typeof startTestServer>[0] = {}): Promise<Json> {
  const server = await startTestServer({ agencies: { shop: agency }, ...options })
  const { status, body } = await server.get('/shop/get_metadata')
  expect(status).toBe(200)
  return body
}

const nodeOf = (metadata: Json, id: string): Json => metadata.nodes.find((node: Json) => node.id === id)

describe('GET /<agency>/get_metadata', () => {
  test('200 names the agency, its agents and entry points, and counts tools with those for messages', async () => {
    const worker = agent('Dev Worker', { tools: [echo, WordCount] })
    const second = agent('Second')
    const boss = agent('Boss')
    const shop = new Agency({
      name: 'Two',
      entryPoint: [boss, second],
      flows: [
        [boss, worker],
        [boss, second],
      ],
    })

    const metadata = await metadataOf(shop)

    expect(Object.keys(metadata)).toEqual([
      'nodes',
      'edges',
      'metadata',
      'agency_swarm_version',
      'bureau_version',
      'allowed_local_file_dirs',
    ])
    expect(metadata.metadata).toEqual({
      agencyName: 'Two',
      totalAgents: 3,
      totalTools: 3,
      agents: ['Boss', 'Second', 'Dev Worker'],
      entryPoints: ['Boss', 'Second'],
      sharedInstructions: '',
      layoutAlgorithm: 'hierarchical',
    })
    expect(metadata.agency_swarm_version).toMatch(/^\d+\.\d+\.\d+$/)
    expect(metadata.bureau_version).toMatch(/^\d+\.\d+\.\d+/)
  })

  test('200 counts every tool for messages, also where an agent has several', async () => {
    const [boss, worker, expert] = [agent('Boss'), agent('Worker', { tools: [echo] }), agent('Expert')]
    const ask = messageTool({ name: 'ask_expert', description: 'Asks.', parameters: z.object({}) })
    const flows = [
      [boss, worker],
      [boss, expert, ask],
    ] as const

    const metadata = await metadataOf(new Agency({ entryPoint: boss, flows }))

    expect(metadata.metadata.totalTools).toBe(3)
    expect(nodeOf(metadata, 'Boss').data).toMatchObject({ toolCount: 0, tools: [], hasSubagents: true })
  })

  test('200 an agency without a name is "Unnamed Agency"', async () => {
    expect((await metadataOf(new Agency({ entryPoint: agent('Solo') }))).metadata.agencyName).toBe('Unnamed Agency')
  })

  test('describes each agent', async () => {
    const worker = agent('Worker')
    const boss = agent('Boss', {
      description: 'Leads.',
      tools: [echo],
      conversationStarters: ['Hello?'],
      quickReplies: ['Yes', 'No'],
    })

    const metadata = await metadataOf(new Agency({ entryPoint: boss, flows: [[boss, worker]] }))

    expect(nodeOf(metadata, 'Boss')).toEqual({
      id: 'Boss',
      type: 'agent',
      position: { x: expect.any(Number), y: expect.any(Number) },
      data: {
        label: 'Boss',
        description: 'Leads.',
        isEntryPoint: true,
        toolCount: 1,
        tools: [
          {
            name: 'echo',
            type: 'function',
            description: 'Echoes.',
            inputSchema: {
              type: 'object',
              properties: { text: { type: 'string', description: 'What to say.' } },
              required: ['text'],
              additionalProperties: false,
            },
          },
        ],
        instructions: '',
        model: 'gpt-test',
        hasSubagents: true,
        capabilities: ['tools'],
        conversationStarters: ['Hello?'],
        quickReplies: ['Yes', 'No'],
      },
    })
    const { data } = nodeOf(metadata, 'Worker')
    expect(data).toMatchObject({ isEntryPoint: false, hasSubagents: false, toolCount: 0, tools: [], capabilities: [] })
    expect(data).not.toHaveProperty('conversationStarters')
    expect(data).not.toHaveProperty('quickReplies')
  })

  test('lists tools before their agent, with edges of ownership, but no tools for messages', async () => {
    const worker = agent('Worker', { tools: [WordCount, echo] })
    const boss = agent('Boss', { tools: [echo] })

    const metadata = await metadataOf(new Agency({ entryPoint: boss, flows: [[boss, worker]] }))

    expect(metadata.nodes.map((node: Json) => node.id)).toEqual([
      'Boss_tool_0',
      'Boss',
      'Worker_tool_0',
      'Worker_tool_1',
      'Worker',
    ])
    expect(nodeOf(metadata, 'Worker_tool_0')).toMatchObject({
      type: 'tool',
      data: { label: 'WordCount', description: 'Counts words.', type: 'function', parentAgent: 'Worker' },
    })
    expect(metadata.edges).toContainEqual({
      id: 'Worker->Worker_tool_1',
      source: 'Worker',
      target: 'Worker_tool_1',
      type: 'owns',
    })
    expect(JSON.stringify(metadata)).not.toContain('send_message')
  })

  test('draws an edge for each pair that a flow or a handoff connects, and says which of them do', async () => {
    const billing = agent('Billing')
    const worker = agent('Worker')
    const boss = agent('Boss', { handoffs: [billing] })
    const flows = [
      [boss, worker],
      [worker, boss],
      [boss, billing],
      [worker, billing, 'handoff'],
    ] as const

    const metadata = await metadataOf(new Agency({ entryPoint: boss, flows: [...flows] }))

    expect(metadata.edges).toEqual([
      {
        id: 'Boss->Worker',
        source: 'Boss',
        target: 'Worker',
        type: 'communication',
        data: { label: 'Boss → Worker', bidirectional: false, kinds: ['message'] },
      },
      {
        id: 'Worker->Boss',
        source: 'Worker',
        target: 'Boss',
        type: 'communication',
        data: { label: 'Worker → Boss', bidirectional: false, kinds: ['message'] },
      },
      {
        id: 'Boss->Billing',
        source: 'Boss',
        target: 'Billing',
        type: 'communication',
        data: { label: 'Boss → Billing', bidirectional: false, kinds: ['message', 'handoff'] },
      },
      {
        id: 'Worker->Billing',
        source: 'Worker',
        target: 'Billing',
        type: 'communication',
        data: { label: 'Worker → Billing', bidirectional: false, kinds: ['handoff'] },
      },
    ])
  })

  test('lays agents out by their distance from the entry points, tools below them', async () => {
    const [a, b, c] = [agent('A'), agent('B'), agent('C', { tools: [echo, WordCount] })]

    const { nodes } = await metadataOf(
      new Agency({
        entryPoint: a,
        flows: [
          [a, b],
          [a, c],
        ],
      }),
    )
    const at = (id: string): unknown => nodes.find((node: Json) => node.id === id).position

    expect([at('A'), at('B'), at('C')]).toEqual([
      { x: 400, y: 80 },
      { x: 340, y: 260 },
      { x: 460, y: 260 },
    ])
    expect([at('C_tool_0'), at('C_tool_1')]).toEqual([
      { x: 400, y: 375 },
      { x: 520, y: 375 },
    ])
  })

  test('shows tools of the model provider by label and kind, and none of their settings', async () => {
    const tools = [
      webSearchTool(),
      fileSearchTool('vs_private'),
      codeInterpreterTool(),
      hostedMcpTool({
        serverLabel: 'docs',
        serverUrl: 'https://mcp.example/x?key=private',
        authorization: 'private-token',
        headers: { 'x-key': 'private-key' },
      }),
    ]
    const solo = agent('Solo', { tools, modelSettings: { reasoning: { effort: 'low' } } })

    const metadata = await metadataOf(new Agency({ entryPoint: solo }))
    const { data } = nodeOf(metadata, 'Solo')

    expect(data.tools.map((each: Json) => [each.name, each.type])).toEqual([
      ['web_search', 'web_search'],
      ['file_search', 'file_search'],
      ['code_interpreter', 'code_interpreter'],
      ['docs', 'mcp'],
    ])
    expect(data.capabilities).toEqual(['reasoning', 'code_interpreter', 'web_search', 'file_search', 'hosted_mcp'])
    for (const each of data.tools) expect(each).not.toHaveProperty('inputSchema')
    expect(JSON.stringify(metadata)).not.toContain('private')
  })

  test('names the model: its own name, the default, or that of a model object', async () => {
    const house = {
      name: 'House model',
      apiKey: 'sk-private',
      request: (): never => expect.unreachable('not asked in this test'),
    }
    const [named, bare, own] = [agent('Named'), agent('Bare', { model: '' }), agent('Own', { model: house })]

    const metadata = await metadataOf(new Agency({ entryPoint: [named, bare, own] }), {
      env: { BUREAU_MODEL: 'gpt-house' },
    })

    expect(['Named', 'Bare', 'Own'].map((id) => nodeOf(metadata, id).data.model)).toEqual([
      'gpt-test',
      'gpt-house',
      'House model',
    ])
    expect(JSON.stringify(metadata)).not.toContain('sk-private')
  })

  test('hides instructions, unless the server was told to expose them', async () => {
    const fixed = agent('Fixed', { instructions: 'Own secret.' })
    const dynamic = agent('Dynamic', { instructions: () => 'Never run for metadata.' })
    const shop = new Agency({ entryPoint: [fixed, dynamic], sharedInstructions: 'Shared secret.' })

    const closed = await metadataOf(shop)
    const open = await metadataOf(shop, { exposeInstructions: true })

    expect(JSON.stringify(closed)).not.toMatch(/secret|Never run/)
    expect(nodeOf(open, 'Fixed').data.instructions).toBe('Shared secret.\n\n---\n\nOwn secret.')
    expect(nodeOf(open, 'Dynamic').data.instructions).toBe('Shared secret.')
    expect(open.metadata.sharedInstructions).toBe('Shared secret.')
  })

  test('lists the local directories that can be used right now; null when there are none to allow', async () => {
    const directory = await mkdtemp(path.join(tmpdir(), 'bureau-meta-'))
    closeAfterTest(() => rm(directory, { recursive: true, force: true }))
    await writeFile(path.join(directory, 'a-file'), '')
    const { solo } = soloAgency()
    const allowedLocalFileDirs = [directory, path.join(directory, 'missing'), path.join(directory, 'a-file')]

    expect((await metadataOf(solo)).allowed_local_file_dirs).toBeNull()
    expect((await metadataOf(solo, { allowedLocalFileDirs })).allowed_local_file_dirs).toEqual([directory])
  })

  test('is the same with AG-UI, needs the token, and asks no agency to be made again', async () => {
    let made = 0
    const make = (): Agency => {
      made += 1
      return soloAgency().solo
    }
    const server = await startTestServer({
      agencies: { shop: make },
      enableAgui: true,
      env: { APP_TOKEN: 'secret-token' },
    })
    const headers = { authorization: 'Bearer secret-token' }

    const answers = [await server.get('/shop/get_metadata', headers), await server.get('/shop/get_metadata', headers)]

    expect(answers.map((answer) => answer.body.metadata.agents)).toEqual([['Solo'], ['Solo']])
    expect((await server.get('/shop/get_metadata')).status).toBe(401)
    expect(made).toBe(1)
  })
})

describe('tools of tool servers', () => {
  test('200 has those of open servers, by their names, as a run gets them', async () => {
    const tools = await startHttpToolServer(['get-sum', 'get-max'])
    closeAfterTest(() => tools.close())
    const toolFilter = { blockedToolNames: ['get-max'] }
    const calculator = new MCPServerStreamableHttp({ name: 'calculator', url: tools.url, toolFilter })
    const metadata = await metadataOf(
      new Agency({ entryPoint: agent('Clerk', { tools: [echo], mcpServers: [calculator] }) }),
    )

    expect(metadata.metadata.totalTools).toBe(2)
    const { data } = nodeOf(metadata, 'Clerk')
    expect(data.toolCount).toBe(2)
    expect(data.tools.map(({ name, type }: Json) => [name, type])).toEqual([
      ['echo', 'function'],
      ['get-sum', 'function'],
    ])
    expect(data.tools[1]).toMatchObject({ description: 'Is get-sum.', inputSchema: { type: 'object' } })
    expect(nodeOf(metadata, 'Clerk_tool_1')).toMatchObject({
      type: 'tool',
      data: { label: 'get-sum', parentAgent: 'Clerk' },
    })
  })

  test('200 without those of a server that cannot be reached, and with those of the others', async () => {
    const tools = await startHttpToolServer(['get-sum'])
    closeAfterTest(() => tools.close())
    const absent = new MCPServerStreamableHttp({ name: 'absent', url: 'http://127.0.0.1:9/mcp' })
    const calculator = new MCPServerStreamableHttp({ name: 'calculator', url: tools.url })
    const agency = new Agency({ entryPoint: agent('Clerk', { mcpServers: [absent, calculator] }) })

    const { data } = nodeOf(await metadataOf(agency), 'Clerk')

    expect(data.tools.map(({ name }: Json) => name)).toEqual(['get-sum'])
  })
})
