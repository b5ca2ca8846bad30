import { tool } from '@bureau/framework'
import { z } from 'zod'

/** A tool that asks first. */
export const refund = tool({
  name: 'refund',
  description: 'Pays money back.',
  parameters: z.object({ euros: z.number() }),
  needsApproval: true,
  execute: ({ euros }) => `${euros} euros are paid back.`,
})
