import { type AgentOptions, MCPServerStreamableHttp, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest, type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'
import { startHttpToolServer } from '../support/tool-server.ts'

/** A connection to a tool server whose tools have these names and answer with them. */
async function serverWith(
  name: string,
  tools: readonly string[],
  options: Partial<ConstructorParameters<typeof MCPServerStreamableHttp>[0]> = {},
): Promise<MCPServerStreamableHttp> {
  const server = await startHttpToolServer(tools)
  closeAfterTest(() => server.close())
  return new MCPServerStreamableHttp({ name, url: server.url, ...options })
}

async function serve(options: Partial<AgentOptions>): Promise<TestServer> {
  return startTestServer({ agencies: soloAgency(options) })
}

/** Calls a tool by the name that the model has seen; its output. */
async function call(server: TestServer, name: string): Promise<Json> {
  server.provider.respond(({ toolOutputs }) => (toolOutputs[0] ? text(toolOutputs[0].output) : toolCall(name, {})))
  return (await server.post('/solo/get_response', { message: 'go' })).body
}

describe('tools of tool servers', () => {
  test('have the names that their server gives them', async () => {
    const names = ['get-sum', 'get_sum', 'getSum', '9lives', 'x'.repeat(64)]
    const server = await serve({ mcpServers: [await serverWith('calculator', names)] })

    for (const name of names) expect((await call(server, name)).response).toContain(`I am ${name}`)
    expect(server.provider.modelRequests[0]!.toolNames).toEqual(names)
  })

  test('whose names no model provider takes get one that it does, and are called by their own', async () => {
    const long = `${'a'.repeat(60)}-tail-${'b'.repeat(20)}`
    const names = ['fs.read', 'git.status', long]
    const server = await serve({ mcpServers: [await serverWith('files', names)] })

    expect((await call(server, 'fs_read')).response).toContain('I am fs.read')
    const shown = server.provider.modelRequests[0]!.toolNames
    expect(shown.slice(0, 2)).toEqual(['fs_read', 'git_status'])
    expect(shown[2]).toMatch(/^a{55}_[0-9a-f]{8}$/)
    expect((await call(server, shown[2]!)).response).toContain(`I am ${long}`)
  })

  test('with one name fail the run, and both are named', async () => {
    const [first, second] = [await serverWith('one', ['get-sum']), await serverWith('two', ['get-sum'])]
    const server = await serve({ mcpServers: [first, second] })
    const { status, body } = await server.post('/solo/get_response', { message: 'go' })
    expect(status).toBe(500)
    expect(body.error).toContain(
      'the tool "get-sum" of the tool server "two" and the tool "get-sum" of the tool server "one" have one name, "get-sum"',
    )
    expect(body.error).toContain('includeServerInToolNames: true')
  })

  test('whose usable names would be one fail the run too, and so does the name of an own tool', async () => {
    const same = await serve({ mcpServers: [await serverWith('files', ['fs.read', 'fs_read'])] })
    expect((await same.post('/solo/get_response', { message: 'go' })).body.error).toContain(
      'the tool "fs_read" of the tool server "files" and the tool "fs.read" of the tool server "files" have one name',
    )

    const own = tool({ name: 'add', description: 'Adds.', parameters: z.object({}), execute: () => 'mine' })
    const both = await serve({ tools: [own], mcpServers: [await serverWith('calculator', ['add'])] })
    expect((await both.post('/solo/get_response', { message: 'go' })).body.error).toContain(
      'the tool "add" of the tool server "calculator" and the agent\'s own tool "add" have one name',
    )
  })

  test('of one name are told apart by their servers', async () => {
    const mcpServers = [await serverWith('one', ['get-sum']), await serverWith('two', ['get-sum'])]
    const server = await serve({ mcpServers, mcpConfig: { includeServerInToolNames: true } })
    expect((await call(server, 'mcp_two__get-sum')).response).toContain('I am get-sum')
    expect(server.provider.modelRequests[0]!.toolNames).toEqual(['mcp_one__get-sum', 'mcp_two__get-sum'])
  })

  test.each([
    ['those that are allowed', { allowedToolNames: ['get-sum', 'get-max'], blockedToolNames: ['get-max'] }],
    ['those that a function takes', async (_context: unknown, { name }: { name: string }) => name === 'get-sum'],
  ])('are only %s', async (_what, toolFilter) => {
    const calculator = await serverWith('calculator', ['get-sum', 'get-max', 'get-min'], { toolFilter })
    const server = await serve({ mcpServers: [calculator] })
    await call(server, 'get-sum')
    expect(server.provider.modelRequests[0]!.toolNames).toEqual(['get-sum'])
  })
})
