import { Agency, Agent, tool } from '@bureau/framework'
import { z } from 'zod'

const findOrder = tool({
  name: 'find_order',
  description: 'Finds an order by its number.',
  parameters: z.object({ number: z.number().int() }),
  execute: ({ number }) => `Order ${number} left this morning.`,
})

const helper = new Agent({
  name: 'Helper',
  instructions: 'Help with orders; always look them up first.',
  tools: [findOrder],
})

export const support = new Agency({ name: 'Support', entryPoint: helper })
