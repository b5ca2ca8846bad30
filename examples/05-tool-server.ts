/**
 * Tools of a tool server (MCP): a process of its own, started on first use and ended after the run.
 * Run: npm run example -- 05
 */
import path from 'node:path'
import { Agency, Agent, ask, MCPServerStdio } from '@bureau/framework'
import { McpServer } from '@modelcontextprotocol/server'
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

const file = path.join(import.meta.dirname, '05-tool-server.ts')

if (process.argv.includes('--serve')) await serve()
else await main()

/** The tool server. Any other one, in any language, would do. */
async function serve(): Promise<void> {
  const server = new McpServer({ name: 'dictionary', version: '1.0.0' })
  const words: Record<string, string> = {
    agency: 'a group of agents with an entry point',
    run: 'one message worked on',
  }
  server.registerTool(
    'look_up_word',
    { description: 'Looks a word up in the dictionary.', inputSchema: z.object({ word: z.string() }) },
    async ({ word }) => ({ content: [{ type: 'text', text: words[word] ?? `There is no word ${word}.` }] }),
  )
  await server.connect(new StdioServerTransport())
}

async function main(): Promise<void> {
  const dictionary = new MCPServerStdio({
    name: 'dictionary',
    command: process.execPath,
    args: [...process.execArgv, file, '--serve'],
  })
  const librarian = new Agent({
    name: 'Librarian',
    instructions: 'Explain words. Always look them up.',
    mcpServers: [dictionary],
  })

  const apiKey = process.env['OPENAI_API_KEY'] // Without one, the built-in demo model answers.
  const { output } = await ask(new Agency({ entryPoint: librarian }), 'Look up the word "agency".', { apiKey })
  console.log(output)
}
