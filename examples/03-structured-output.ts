/**
 * An answer that is an object of a given shape, and how to get it with its type.
 * Run: npm run example -- 03
 */
import { Agency, Agent, ask } from '@bureau/framework'
import { z } from 'zod'

const Ticket = z.object({
  title: z.string(),
  priority: z.enum(['low', 'normal', 'high']),
  needsReply: z.boolean(),
})

const triage = new Agent({ name: 'Triage', instructions: 'Make a ticket of every message.', outputType: Ticket })
const desk = new Agency({ entryPoint: triage })

const apiKey = process.env['OPENAI_API_KEY'] // Without one, the demo model fills the shape with its smallest values.
const { output } = await ask(desk, 'Nobody can log in since noon!', { apiKey })

const ticket = Ticket.parse(output)
console.log(ticket)
