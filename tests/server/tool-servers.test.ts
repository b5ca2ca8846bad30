import { fileURLToPath } from 'node:url'
import { MCPServerStdio, MCPServerStreamableHttp } from '@bureau/framework'
import { expect, test } from 'vitest'
import { text, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'
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
