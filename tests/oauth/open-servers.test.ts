import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node'
import { MCPServerStreamableHttp } from '@openai/agents-core'
import { expect, test } from 'vitest'
import { text, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest, soloAgency, startTestServer } from '../support/test-server.ts'
import { greetingServer, startHttpToolServer } from '../support/tool-server.ts'

test('concurrent runs share an open tool server that keeps no sessions', async () => {
  const tools = await startHttpToolServer()
  closeAfterTest(() => tools.close())
  const mcp = new MCPServerStreamableHttp({ name: 'greeter', url: tools.url })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })
  server.provider.respond((request) => (request.toolOutputs[0] ? text('done') : toolCall('greet', { name: 'Ada' })))

  const answers = await Promise.all(
    Array.from({ length: 20 }, () => server.post('/solo/get_response', { message: 'hi' })),
  )
  expect(answers.map(({ body }) => body.response)).toEqual(Array(20).fill('done'))
})

test('an open tool server that was restarted is connected to again', async () => {
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>()
  const http = createServer((request, response) => {
    const id = request.headers['mcp-session-id']
    const known = typeof id === 'string' ? sessions.get(id) : undefined
    if (known) return void known.handleRequest(request, response)
    if (id !== undefined) return response.writeHead(404).end()
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (made) => void sessions.set(made, transport),
    })
    void greetingServer()
      .connect(transport)
      .then(() => transport.handleRequest(request, response))
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  closeAfterTest(async () => {
    http.closeAllConnections()
    http.close()
  })
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`
  const mcp = new MCPServerStreamableHttp({ name: 'greeter', url })
  const server = await startTestServer({ agencies: soloAgency({ mcpServers: [mcp] }) })
  server.provider.respond((request) => (request.toolOutputs[0] ? text('done') : toolCall('greet', { name: 'Ada' })))

  for (let restarts = 0; restarts < 2; restarts++) {
    sessions.clear()
    expect((await server.post('/solo/get_response', { message: 'hi' })).body.response).toBe('done')
    expect(sessions.size).toBe(1)
  }
})
