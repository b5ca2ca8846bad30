/**
 * A server in code: an agency, a tool on its own, a token, metrics.
 * Run: npm run example -- 06, then 07 in a second terminal. The token is "change-me" unless EXAMPLE_TOKEN says otherwise.
 */
import { Agency, Agent, tool } from '@bureau/framework'
import { runServer } from '@bureau/server'
import { z } from 'zod'

const tellTime = tool({
  name: 'tell_time',
  description: 'Tells the time in a city.',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `It is noon in ${city}.`,
})

const guide = new Agent({
  name: 'Guide',
  description: 'Knows cities.',
  instructions: 'Answer questions about cities.',
  tools: [tellTime],
})
const desk = new Agent({ name: 'Desk', instructions: 'Welcome travellers. Ask the guide about cities.' })

process.env['EXAMPLE_TOKEN'] ??= 'change-me'
const { url } = await runServer({
  agencies: { travel: new Agency({ name: 'Travel', entryPoint: desk, flows: [[desk, guide]] }) },
  tools: [tellTime],
  host: '127.0.0.1',
  port: Number(process.env['PORT'] ?? 8000),
  appTokenEnv: 'EXAMPLE_TOKEN',
  metrics: true,
  logLevel: 'warn',
})
console.log(`ready at ${url}`)
