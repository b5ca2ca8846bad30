/**
 * The hosted platform under test: the agency of `bench/weather-agency.ts`, everything else from the environment. It tells its
 * parent, when asked for `credentials`, the API key of its first owner.
 */
import { McpConnections } from '@bureau/framework'
import { ensureFirstOwner, loadPlatformConfig, openPlatform } from '@bureau/platform'
import { listen, type Logger } from '@bureau/runtime'
import { loadConfig, modelAccess } from '@bureau/server'
import { followParent } from '../follow-parent.ts'
import { demo } from '../weather-agency.ts'

const models = modelAccess(loadConfig())
const { platform, app } = await openPlatform({
  agencies: new Map([['demo', demo]]),
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
