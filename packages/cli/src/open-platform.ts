// Loaded by the commands that need it: a self-hosted server must not carry a database.
import { McpConnections } from '@bureau/framework'
import { loadPlatformConfig, type OpenPlatform, openPlatform } from '@bureau/platform'
import { modelAccess, type ServerConfig } from '@bureau/server'
import type { AgencyModule } from './load-agencies.ts'

export { ensureFirstOwner, sharePort } from '@bureau/platform'

/** The hosted platform over the agencies of a module, with models and tool servers of its own. */
export async function openPlatformFor(module: AgencyModule, config: ServerConfig): Promise<OpenPlatform> {
  const agencies = new Map(
    Object.entries(module.agencies ?? {}).map(([name, agency]) => [
      name,
      typeof agency === 'function' ? agency() : agency,
    ]),
  )
  const models = modelAccess(config)
  const mcp = new McpConnections()
  const opened = await openPlatform({
    agencies,
    environment: { models, mcp, now: Date.now },
    config: loadPlatformConfig(),
  })
  opened.app.addHook('onClose', async () => {
    await mcp.close()
    await models.close()
  })
  return opened
}
