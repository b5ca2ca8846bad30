import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { json } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { createGzip } from 'node:zlib'
import { MCPServerStdio, MCPServerStreamableHttp, type MCPServerStreamableHttpOptions } from '@bureau/framework'
import { expect, test } from 'vitest'
import { startFileServer } from '../support/file-server.ts'
import { Gate, text, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest, type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'
import { startHttpToolServer } from '../support/tool-server.ts'

async function expectGreeting(server: TestServer): Promise<void> {
  server.provider.respond((request) => {
    const [output] = request.toolOutputs
    return output ? text(output.output) : toolCall('greet', { name: 'Ada' })
  })
  const answer = await server.post('/solo/get_response', { message: 'greet Ada' })
  expect(answer.body.response).toContain('Hello Ada, from the tool server')
  expect(server.provider.modelRequests.at(-1)!.toolNames).toContain('greet')
}

test('the tools of a streamable HTTP server are used, over one connection for many runs', async () => {
  const tools = await startHttpToolServer()
  closeAfterTest(() => tools.close())
  const mcp = new MCPServerStreamableHttp({ name: 'greeter', url: tools.url })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })
  expect(tools.requests).toBe(0)

  await expectGreeting(server)
  await expectGreeting(server)
})

test('the tools of a stdio server are used; the process ends with the server', async () => {
  const script = fileURLToPath(new URL('../support/stdio-tool-server.ts', import.meta.url))
  const mcp = new MCPServerStdio({ name: 'greeter', command: process.execPath, args: [script] })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })

  await expectGreeting(server)
})

test('a tool server that cannot be reached fails the run with its name, and the next run tries again', async () => {
  const mcp = new MCPServerStreamableHttp({ name: 'absent', url: 'http://127.0.0.1:9/mcp' })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })

  for (let attempt = 0; attempt < 2; attempt++) {
    const answer = await server.post('/solo/get_response', { message: 'hi' })
    expect(answer.status).toBe(500)
    expect(answer.body.error).toBe('The tool server "absent" could not be reached.')
  }
  expect(server.provider.requests).toEqual([])
})

test('a tool server that nobody has named is called by its host or program: keys in its address reach no client', async () => {
  const tools = await startHttpToolServer()
  closeAfterTest(() => tools.close())
  const { host } = new URL(tools.url)
  const script = fileURLToPath(new URL('../support/stdio-tool-server.ts', import.meta.url))
  const named = async (mcp: MCPServerStdio | MCPServerStreamableHttp): Promise<string> => {
    const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })
    server.provider.script([toolCall('greet', { name: 'Ada' }), text('Done.')])
    const stream = await (await server.stream('/solo/get_response_stream', { message: 'greet Ada' })).all()
    const { body } = await server.get('/solo/get_metadata')
    const seen = JSON.stringify([stream.frames, body])
    expect(seen).not.toContain('canary')
    return /mcp_server_name\\?":\\?"([^"\\]*)/.exec(seen)![1]!
  }

  const remote = await named(new MCPServerStreamableHttp({ url: `${tools.url}?api_key=canary` }))
  const local = await named(new MCPServerStdio({ fullCommand: `${process.execPath} ${script} --api-key=canary` }))

  expect([remote, local]).toEqual([`streamable-http: ${host}`, 'stdio: node'])
})

type ToolServerAnswer = { readonly result: Json } | { readonly error: Json }

/** An MCP server that answers a request as the test says. With another session it knows nothing of its earlier clients. */
async function startScriptedToolServer(
  answer: (request: Json) => Promise<ToolServerAnswer>,
  sessionOf = (): string => 'only',
): Promise<string> {
  const reply = async (request: IncomingMessage, response: ServerResponse): Promise<unknown> => {
    if (request.method !== 'POST') return response.writeHead(405).end()
    const message: Json = await json(request)
    const session = sessionOf()
    if (message.method !== 'initialize' && request.headers['mcp-session-id'] !== session)
      return response.writeHead(404).end()
    if (message.id === undefined) return response.writeHead(202).end()
    const { protocolVersion } = message.params
    const server = { protocolVersion, serverInfo: { name: 'scripted', version: '1.0.0' }, capabilities: { tools: {} } }
    const answered = message.method === 'initialize' ? { result: server } : await answer(message)
    response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': session })
    return response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...answered }))
  }
  const http = createServer((request, response) => void reply(request, response))
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  closeAfterTest(async () => {
    http.closeAllConnections()
    http.close()
  })
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`
}

test('a listing that fails in one run leaves the calls of others alone', async () => {
  const gate = new Gate()
  const failures: Json[] = []
  const url = await startScriptedToolServer(async ({ method }) => {
    if (method === 'tools/list') {
      const error = failures.pop()
      return error ? { error } : { result: { tools: [{ name: 'wait', inputSchema: { type: 'object' } }] } }
    }
    await gate.pass(new AbortController().signal)
    return { result: { content: [{ type: 'text', text: 'waited' }] } }
  })
  const mcp = new MCPServerStreamableHttp({ name: 'scripted', url })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })
  server.provider.respond(({ toolOutputs: [output], items }) => {
    if (output) return text(output.output)
    return JSON.stringify(items).includes('short') ? text('short') : toolCall('wait', {})
  })
  const long = server.post('/solo/get_response', { message: 'long' })
  await gate.reached()

  failures.push({ code: -32_603, message: 'Internal error' })
  const short = await server.post('/solo/get_response', { message: 'short' })
  gate.release()

  expect(short.body.response).toBe('short')
  expect((await long).body.response).toContain('waited')
})

test('a server whose tools are listed once is found again after it was restarted', async () => {
  let session = 'first'
  let listings = 0
  const url = await startScriptedToolServer(
    async ({ method }) => {
      if (method !== 'tools/list') return { result: { content: [{ type: 'text', text: session }] } }
      listings++
      return { result: { tools: [{ name: 'look', inputSchema: { type: 'object' } }] } }
    },
    () => session,
  )
  const mcp = new MCPServerStreamableHttp({ name: 'scripted', url, cacheToolsList: true })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })
  server.provider.respond(({ toolOutputs }) => {
    const found = toolOutputs.some(({ output }) => output === session)
    return found || toolOutputs.length > 1 ? text(JSON.stringify(toolOutputs)) : toolCall('look', {})
  })
  const look = async (): Promise<string> => (await server.post('/solo/get_response', { message: 'look' })).body.response

  expect([await look(), await look()].every((response) => response.includes('"first"'))).toBe(true)
  expect(listings).toBe(1)

  session = 'second'
  // The call that finds the server gone has failed; the model may repeat it.
  expect(await look()).toContain('"second"')
})

test('tools that are listed in several pages are all there', async () => {
  const url = await startScriptedToolServer(async ({ params: { cursor } }) => {
    const tools = [{ name: cursor ?? 'first', inputSchema: { type: 'object' } }]
    return { result: { tools, ...(cursor === undefined && { nextCursor: 'second' }) } }
  })
  const mcp = new MCPServerStreamableHttp({ name: 'scripted', url })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })
  server.provider.script([text('Hi.')])

  await server.post('/solo/get_response', { message: 'hi' })

  expect(server.provider.modelRequests[0]!.toolNames).toEqual(['first', 'second'])
})

test('a list of tools that never ends fails the run', async () => {
  let pages = 0
  const url = await startScriptedToolServer(async () => ({ result: { tools: [], nextCursor: String(++pages) } }))
  const mcp = new MCPServerStreamableHttp({ name: 'scripted', url })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })

  const answer = await server.post('/solo/get_response', { message: 'hi' })

  expect(answer.body.error).toBe('The tool server "scripted" could not be reached.')
})

test('the schema that a tool server has for its own answers cannot hold up the server', async () => {
  const outputSchema = { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } }
  const url = await startScriptedToolServer(async ({ method }) => {
    if (method === 'tools/list')
      return { result: { tools: [{ name: 'look', inputSchema: { type: 'object' }, outputSchema }] } }
    const structuredContent = { a: `${'a'.repeat(27)}!` }
    return { result: { content: [{ type: 'text', text: 'looked' }], structuredContent } }
  })
  const mcp = new MCPServerStreamableHttp({ name: 'scripted', url })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })
  server.provider.respond(({ toolOutputs: [output] }) => (output ? text(output.output) : toolCall('look', {})))

  const answer = await server.post('/solo/get_response', { message: 'look' })

  expect(answer.body.response).toContain('looked')
})

test('an endless answer of a tool server is given up, compressed as it may be', async () => {
  const site = await startFileServer({
    '/mcp': (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
      const endless = function* (): Generator<string> {
        yield '{"jsonrpc":"2.0","id":0,"result":"'
        for (;;) yield 'x'.repeat(65_536)
      }
      pipeline(Readable.from(endless()), createGzip(), response).catch(() => {})
    },
  })
  const mcp = new MCPServerStreamableHttp({ name: 'endless', url: `${site.url}/mcp` })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })

  const answer = await server.post('/solo/get_response', { message: 'hi' })

  expect(answer.body.error).toBe('The tool server "endless" could not be reached.')
  await site.abandoned
})

const FOUND = { result: { content: [{ type: 'text', text: 'Two.' }], structuredContent: { found: 2 } } }
const CLOSED = { error: { code: -32_603, message: 'closed' } }

test.each<[string, Partial<MCPServerStreamableHttpOptions>, ToolServerAnswer, string | undefined]>([
  ['structured content, where it is wanted', { useStructuredContent: true }, FOUND, '{"found":2}'],
  ['text, where nothing else is wanted', {}, FOUND, 'Two.'],
  ['text of a failure', { useStructuredContent: true }, { result: { ...FOUND.result, isError: true } }, 'Two.'],
  ['a failure in its own words', { errorFunction: () => 'It is closed.' }, CLOSED, 'It is closed.'],
  ['a failure that ends the run', { errorFunction: null }, CLOSED, undefined],
])('a tool server gives the model %s', async (_what, options, answer, output) => {
  const tools = [{ name: 'find', inputSchema: { type: 'object' } }]
  const url = await startScriptedToolServer(async ({ method }) =>
    method === 'tools/list' ? { result: { tools } } : answer,
  )
  const mcp = new MCPServerStreamableHttp({ name: 'finder', url, ...options })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })
  server.provider.script([toolCall('find'), text('Done.')])

  const { status } = await server.post('/solo/get_response', { message: 'find' })

  expect(status).toBe(output === undefined ? 500 : 200)
  const outputs = server.provider.modelRequests[1]?.toolOutputs.map((each) => each.output)
  expect(outputs).toEqual(output === undefined ? undefined : [output])
})
