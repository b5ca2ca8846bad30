import type { PlatformConfig } from '@bureau/platform'
import { checkAddress } from '@bureau/runtime'
import { loadConfig, type ServerConfig } from '@bureau/server'
import { type AgencyModule, loadAgencies } from '../load-agencies.ts'
import { checkAgents, checkModel } from './check-model.ts'
import { hasPlatform, withPlatform } from '../with-platform.ts'
import { checked, type Finding } from './finding.ts'

type Examined = {
  /** The module whose agencies would be served. */
  readonly file: string | undefined
  readonly host: string
  readonly port: number
}

/** Looks at everything that a server needs, one thing after the other. Yields each finding as it is made. */
export async function* examine({ file, host, port }: Examined): AsyncGenerator<Finding> {
  yield { subject: 'Node.js', state: 'ok', text: process.versions.node }
  let loaded: AgencyModule = {}
  yield checked('Agencies', async () => {
    loaded = await loadAgencies(file)
    const { agencies = {}, tools = [] } = loaded
    return [...Object.keys(agencies), ...(tools.length > 0 ? [`${tools.length} tools`] : [])].join(', ')
  })
  yield checked('Address', async () => {
    await checkAddress({ host, port })
    return `${host}:${port} is free`
  })
  if (!hasPlatform()) return yield* examineServer(loaded)
  const { checkDatabase, checkDisk, checkFiles, checkRedis, loadPlatformConfig } = await withPlatform(
    () => import('./check-platform.ts'),
  )
  let settings: { readonly server: ServerConfig; readonly platform: PlatformConfig } | undefined
  yield checked('Settings', async () => {
    settings = { server: loadConfig(), platform: loadPlatformConfig() }
    return 'the environment is valid'
  })
  if (!settings) return
  const { server, platform } = settings
  yield checkToken(server)
  yield checked('Model', () => checkModel(server))
  yield* checkAgents(loaded, server)
  yield checked('Redis', () => checkRedis(server.redisUrl))
  yield checked('Database', () => checkDatabase(platform))
  yield checked('Disk', () => checkDisk(platform))
  if (platform.filesUrl !== undefined) yield checked('Files', () => checkFiles(platform))
}

/** Without the platform there is no database. */
async function* examineServer(loaded: AgencyModule): AsyncGenerator<Finding> {
  let server: ServerConfig | undefined
  yield checked('Settings', async () => {
    server = loadConfig()
    return 'the environment is valid'
  })
  if (!server) return
  const config = server
  yield checkToken(config)
  yield checked('Model', () => checkModel(config))
  yield* checkAgents(loaded, config)
  yield {
    subject: 'Platform',
    state: 'note',
    text: 'not installed: npm install @bureau/platform brings start and platform',
  }
}

function checkToken({ read }: ServerConfig): Finding {
  const subject = 'Token'
  if (read('APP_TOKEN') !== undefined) return { subject, state: 'ok', text: 'APP_TOKEN is set' }
  const text =
    'APP_TOKEN is not set: the self-hosted server is open to whoever reaches it, except for pages of other machines'
  return { subject, state: 'note', text }
}
