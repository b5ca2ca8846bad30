/**
 * The server under test, everything at its defaults: an agency of one agent with one tool, and one with a handoff.
 * Run: PORT=8000 OPENAI_BASE_URL=… OPENAI_API_KEY=… node --conditions=@bureau/source bench/server.ts
 */
import { Agency, Agent } from '@bureau/framework'
import { runServer } from '@bureau/server'
import { followParent } from './follow-parent.ts'
import { demo, getWeather } from './weather-agency.ts'

const forecaster = new Agent({
  name: 'Forecaster',
  instructions: 'You tell the weather. Answer briefly.',
  model: 'gpt-5-mini',
  tools: [getWeather],
})
const reception = new Agent({
  name: 'Reception',
  instructions: 'You are a helpful assistant. Hand questions about the weather over.',
  model: 'gpt-5-mini',
})

const team = new Agency({ name: 'team', entryPoint: reception, flows: [[reception, forecaster, 'handoff']] })

await runServer({ agencies: { demo, team }, port: Number(process.env['PORT'] ?? 8000), host: '127.0.0.1' })
followParent()
