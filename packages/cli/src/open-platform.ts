// Loaded by the commands that need it: a self-hosted server must not carry a database.
import v8 from 'node:v8'
import vm from 'node:vm'
import { McpConnections } from '@bureau/framework'
import {
  ensureFirstOwner,
  type FirstCredentials,
  loadPlatformConfig,
  type OpenPlatform,
  openPlatform,
} from '@bureau/platform'
import { checkAddress, createLogger, type Logger, listen } from '@bureau/runtime'
import { modelAccess, type ServerConfig } from '@bureau/server'
import type { AgencyModule } from './load-agencies.ts'
import type { Terminal } from './terminal.ts'

export { loadPlatformConfig, sharePort } from '@bureau/platform'

/** The hosted platform over the agencies of a module, with models and tool servers of its own. */
export async function openPlatformFor(
  module: AgencyModule,
  config: ServerConfig,
  terminal: Pick<Terminal, 'log' | 'waitFor'>,
): Promise<OpenPlatform> {
  const agencies = new Map(Object.entries(module.agencies ?? {}))
  const models = modelAccess(config)
  const platformConfig = loadPlatformConfig()
  const log = createLogger(platformConfig.logLevel, terminal.log)
  const mcp = new McpConnections({ onWarning: (message) => log.warn(message) })
  const done = terminal.waitFor('preparing the database')
  const opened = await openPlatform({
    agencies,
    environment: { models, mcp, now: Date.now },
    config: platformConfig,
    log,
  }).finally(done)
  opened.app.addHook('onClose', async () => {
    await mcp.close()
    await models.close()
  })
  return opened
}

type Address = { readonly host: string; readonly port: number }

type Served = { readonly url: string; readonly credentials: FirstCredentials | undefined }

/**
 * Makes the first owner, then listens with the platform's app, or with one that shares its port: a first key is there before
 * anybody can ask for it. When one of them fails everything is closed.
 *
 * @throws StartError the address cannot be listened on.
 */
export async function servePlatform(
  app: OpenPlatform['app'],
  { platform }: OpenPlatform,
  address: Address,
): Promise<Served> {
  const credentials = await makeFirstOwner(platform, address).catch(async (error: unknown) => {
    await app.close()
    throw error
  })
  const url = await listen(app, { ...address, closeMs: platform.config.closeMs, log: app.log as Logger })
  // The name that providers know developers' machines by.
  platform.startUp.address = url.replace('//127.0.0.1:', '//localhost:')
  shrinkHeap()
  return { url, credentials }
}

/** Not for a server that is not going to listen: its first key would be shown to nobody. */
async function makeFirstOwner(
  platform: OpenPlatform['platform'],
  address: Address,
): Promise<FirstCredentials | undefined> {
  await checkAddress(address)
  return ensureFirstOwner(platform)
}

/**
 * Starting leaves the room for short-lived objects grown to 130 MB. V8 gives most of it back when a process has been idle for some
 * seconds after a collection, but an idle process would wait for hours for its first one.
 */
function shrinkHeap(): void {
  v8.setFlagsFromString('--expose-gc')
  const collect = vm.runInNewContext('gc') as () => void
  collect()
}
