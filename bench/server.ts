/**
 * The server under test: one agency, one agent, one tool, everything at its defaults.
 * Run: PORT=8000 OPENAI_BASE_URL=… OPENAI_API_KEY=… node --conditions=@bureau/source bench/server.ts
 */
import { Agency, Agent, tool } from '@bureau/framework'
import { runServer } from '@bureau/server'
import { z } from 'zod'
import { followParent } from './follow-parent.ts'

const getWeather = tool({
  name: 'get_weather',
  description: 'Tells the weather in a city.',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `Mild and a little cloudy in ${city}.`,
})

const agency = new Agency({
  name: 'demo',
  entryPoint: new Agent({
    name: 'Assistant',
    instructions: 'You are a helpful assistant. Answer briefly.',
    model: 'gpt-5-mini',
    tools: [getWeather],
  }),
})

await runServer({ agencies: { demo: agency }, port: Number(process.env['PORT'] ?? 8000), host: '127.0.0.1' })
followParent()
