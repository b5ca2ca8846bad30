/**
 * The hosted platform under test: the agency of `bench/server.ts`, everything else from the environment. It tells its
 * parent, when asked for `credentials`, the API key of its first owner.
 */
import { Agency, Agent, McpConnections, tool } from '@bureau/framework'
import { ensureFirstOwner, loadPlatformConfig, openPlatform } from '@bureau/platform'
import { listen, type Logger } from '@bureau/runtime'
import { loadConfig, modelAccess } from '@bureau/server'
import { z } from 'zod'
import { followParent } from '../follow-parent.ts'

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

const models = modelAccess(loadConfig())
const { platform, app } = await openPlatform({
  agencies: new Map([['demo', agency]]),
  environment: { models, mcp: new McpConnections(), now: Date.now },
  config: loadPlatformConfig(),
})
const credentials = await ensureFirstOwner(platform)
process.on('message', (message) => {
  if (message === 'credentials') process.send?.(credentials)
})
followParent()
process.channel?.unref() // after its last run the process ends, whether or not the benchmark is there
await listen(app, {
  port: Number(process.env['PORT'] ?? 8000),
  host: '127.0.0.1',
  closeMs: 5_000,
  log: app.log as Logger,
})
