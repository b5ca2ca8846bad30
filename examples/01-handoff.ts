/**
 * A conversation moves from one agent to another, and the next message names the agent that has it.
 * Run: npm run example -- 01
 */
import { Agency, Agent, ask } from '@bureau/framework'

const repairs = new Agent({
  name: 'Repairs',
  description: 'Takes over repairs of broken devices.',
  instructions: 'Ask for the model of the device, then arrange a repair.',
})
const reception = new Agent({ name: 'Reception', instructions: 'Welcome customers. Hand repairs over.' })

const workshop = new Agency({ entryPoint: reception, flows: [[reception, repairs, 'handoff']] })

const apiKey = process.env['OPENAI_API_KEY'] // Without one, the built-in demo model answers.
const first = await ask(workshop, 'My lamp is broken and needs a repair.', { apiKey })
const second = await ask(workshop, 'It is the small one.', { apiKey, agent: 'Repairs', history: first.new_messages })

for (const { output, new_messages: messages } of [first, second]) {
  console.log(`${messages.at(-1)?.agent}: ${String(output)}`)
}
