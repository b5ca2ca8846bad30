import { McpServer } from '@modelcontextprotocol/server'
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

const server = new McpServer({ name: 'dictionary', version: '1.0.0' })
server.registerTool(
  'look_up_word',
  { description: 'Looks a word up in the dictionary.', inputSchema: z.object({ word: z.string() }) },
  async ({ word }) => ({ content: [{ type: 'text', text: `${word}: a group of agents with an entry point` }] }),
)
await server.connect(new StdioServerTransport())
