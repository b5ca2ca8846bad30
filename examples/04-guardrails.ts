/**
 * A guardrail before the model, whose guidance becomes the answer, and one after it, which fails the run when the second
 * attempt is no better.
 * Run: npm run example -- 04
 */
import { Agency, Agent, ask } from '@bureau/framework'

const help = new Agent({
  name: 'Help',
  instructions: 'Help with orders. Never repeat an e-mail address.',
  inputGuardrails: [
    {
      name: 'no passwords',
      execute: async ({ input }) => ({
        tripwireTriggered: JSON.stringify(input).includes('password'),
        outputInfo: 'Please never send a password.',
      }),
    },
  ],
  outputGuardrails: [
    {
      name: 'no addresses',
      execute: async ({ agentOutput }) => ({
        tripwireTriggered: /\S@\S/.test(agentOutput),
        outputInfo: 'Answer again without the e-mail address.',
      }),
    },
  ],
  validationAttempts: 1,
})
const agency = new Agency({ entryPoint: help })

const apiKey = process.env['OPENAI_API_KEY'] // Without one, the demo model repeats what it is told, addresses too.
for (const message of ['Hello', 'My password is 1234', 'Write to ada@example.com']) {
  const { status, output, error, usage } = await ask(agency, message, { apiKey })
  console.log(`${status}, ${usage?.request_count} requests: ${String(error?.message ?? output)}`)
}
