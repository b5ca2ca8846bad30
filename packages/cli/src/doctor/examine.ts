import type { PlatformConfig } from '@bureau/platform'
import { checkAddress } from '@bureau/runtime'
import { loadConfig, readServed, type ServerConfig } from '@bureau/server'
import { type AgencyModule, loadAgencies } from '../load-agencies.ts'
import { checkAgents, checkModels } from './check-model.ts'
import { examineSettings } from '../read-settings.ts'
import { unknownSettings } from '../unknown-settings.ts'
import { hasPlatform, platformInstall, withPlatform } from '../with-platform.ts'
import { checked, type Finding } from './finding.ts'

type Address = { readonly host: string; readonly port: number }

type Examined = {
  /** The module whose agencies would be served. */
  readonly file: string | undefined
  readonly environment: NodeJS.ProcessEnv
  readonly readAddress: (environment: NodeJS.ProcessEnv) => Address
}

/**
 * Looks at everything that a server needs, one thing after the other, whatever is at fault before. Yields each finding as it is
 * made.
 */
export async function* examine({ file, environment, readAddress }: Examined): AsyncGenerator<Finding> {
  yield { subject: 'Node.js', state: 'ok', text: process.versions.node }
  let loaded: AgencyModule = {}
  yield checked('Agencies', async () => {
    loaded = await loadAgencies(file)
    const { agencies, tools } = readServed(loaded)
    const counted = tools.length === 1 ? '1 tool' : `${tools.length} tools`
    return [...agencies.keys(), ...(tools.length > 0 ? [counted] : [])].join(', ')
  })
  const checks = hasPlatform() ? await withPlatform(() => import('./check-platform.ts')) : undefined
  const read = (variables: NodeJS.ProcessEnv) =>
    examineSettings<Settings>({
      address: () => readAddress(variables),
      server: () => loadConfig(variables),
      platform: () => checks?.loadPlatformConfig(variables),
    })
  const { problems } = read(environment)
  yield problems.length === 0
    ? { subject: 'Settings', state: 'ok', text: 'the environment is valid' }
    : { subject: 'Settings', state: 'fault', text: [...problems, 'The rest is checked without them.'].join('\n') }
  const unknown = unknownSettings(environment)
  if (unknown.length > 0) yield { subject: 'Settings', state: 'note', text: unknown.join('\n') }
  const { address, server, platform } = read(withoutMistakes(environment, problems)).valid
  if (address) yield checked('Address', () => checkFree(address))
  if (server) yield* examineServer(loaded, server)
  if (!checks) {
    yield { subject: 'Platform', state: 'note', text: `not installed: ${platformInstall()} brings start and platform` }
  }
  if (checks && server) yield checked('Redis', () => checks.checkRedis(server.redisUrl))
  if (!checks || !platform) return
  yield checked('Database', () => checks.checkDatabase(platform))
  yield checked('Disk', () => checks.checkDisk(platform))
  if (platform.filesUrl !== undefined) yield checked('Files', () => checks.checkFiles(platform))
}

type Settings = {
  readonly address: Address
  readonly server: ServerConfig
  readonly platform: PlatformConfig | undefined
}

/** A line about a variable begins with its name. */
function withoutMistakes(environment: NodeJS.ProcessEnv, problems: readonly string[]): NodeJS.ProcessEnv {
  const wrong = new Set(problems.map((problem) => problem.split(':')[0]))
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !wrong.has(name)))
}

async function checkFree({ host, port }: Address): Promise<string> {
  await checkAddress({ host, port })
  return `${host}:${port} is free`
}

async function* examineServer(loaded: AgencyModule, server: ServerConfig): AsyncGenerator<Finding> {
  yield checkToken(server)
  yield* checkModels(server)
  const agents = await checked('Model', async () => (await checkAgents(loaded, server)) ?? '')
  if (agents.state === 'fault') yield agents
}

function checkToken({ read }: ServerConfig): Finding {
  const subject = 'Token'
  if (read('APP_TOKEN') !== undefined) return { subject, state: 'ok', text: 'APP_TOKEN is set' }
  const text =
    'APP_TOKEN is not set: the self-hosted server is open to whoever reaches it, except for pages of other machines'
  return { subject, state: 'note', text }
}
