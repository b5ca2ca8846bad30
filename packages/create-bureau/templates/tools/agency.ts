import { Agency, Agent, MCPServerStdio, tool } from '@bureau/framework'
import { z } from 'zod'

const findOrder = tool({
  name: 'find_order',
  description: 'Finds an order by its number.',
  parameters: z.object({ number: z.number().int() }),
  execute: ({ number }) => `Order ${number} left this morning.`,
})

// A tool server of your own: see dictionary.ts. For one elsewhere: new MCPServerStreamableHttp({ name, url }).
const dictionary = new MCPServerStdio({
  name: 'dictionary',
  command: process.execPath,
  args: [`${import.meta.dirname}/dictionary.ts`],
})

const helper = new Agent({
  name: 'Helper',
  instructions: 'Help with orders; always look them up first. Look up words that customers do not know.',
  tools: [findOrder],
  mcpServers: [dictionary],
})

/** Served under the name of this export: POST /support/get_response_stream */
export const support = new Agency({ name: 'Support', entryPoint: helper })
