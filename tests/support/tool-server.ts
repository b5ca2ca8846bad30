import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node'
import { McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'

/** An MCP server with the tool `greet({name})`, or with tools of these names that say who they are. */
export function greetingServer(names?: readonly string[]): McpServer {
  const server = new McpServer({ name: 'greeter', version: '1.0.0' })
  for (const name of names ?? []) {
    server.registerTool(name, { description: `Is ${name}.`, inputSchema: z.object({}) }, async () => ({
      content: [{ type: 'text', text: `I am ${name}` }],
    }))
  }
  if (names) return server
  server.registerTool(
    'greet',
    { description: 'Greets somebody.', inputSchema: z.object({ name: z.string() }) },
    async ({ name }) => ({ content: [{ type: 'text', text: `Hello ${name}, from the tool server` }] }),
  )
  return server
}

type HttpToolServer = { readonly url: string; readonly requests: number; close(): Promise<void> }

/** The same over streamable HTTP on a free loopback port. */
export async function startHttpToolServer(names?: readonly string[]): Promise<HttpToolServer> {
  let requests = 0
  const http = createServer((request, response) => {
    requests++
    const transport = new NodeStreamableHTTPServerTransport({})
    void greetingServer(names)
      .connect(transport)
      .then(() => transport.handleRequest(request, response))
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    get requests() {
      return requests
    },
    close: async () => {
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}
