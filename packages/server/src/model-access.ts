import { type Dispatcher, EnvHttpProxyAgent, Agent as HttpAgent } from 'undici'
import { type ModelAccess, readOptions } from '@bureau/framework'
import { checkUrl, createEgressPolicy, type EgressPolicyOptions, GuardedDispatcher } from '@bureau/runtime'
import { EgressChecks } from './check-options.ts'
import type { ServerConfig } from './config.ts'

/** The model is silent for this long at most; then it counts as lost. */
const MODEL_SILENCE_MS = 120_000

export type ServerModelAccess = ModelAccess & {
  /** For model addresses and files that callers name: public addresses, and what the operator allows besides. */
  readonly callerDispatcher: GuardedDispatcher
  readonly close: () => Promise<void>
}

/**
 * Connections to the operator's model providers, kept alive, and guarded ones for addresses that callers name.
 *
 * @throws ConfigError an option is not known, or an entry of the egress lists cannot be understood.
 */
export function modelAccess(config: ServerConfig, egress: EgressPolicyOptions = {}): ServerModelAccess {
  readOptions('modelAccess', EgressChecks, egress)
  const allow = [...config.allowedHosts, ...(egress.allow ?? [])]
  const policy = createEgressPolicy({ allow, ...(egress.deny && { deny: egress.deny }) })
  const timeouts = { headersTimeout: MODEL_SILENCE_MS, bodyTimeout: MODEL_SILENCE_MS, connectTimeout: 10_000 }
  const dispatcher = ownDispatcher(config, { ...timeouts, keepAliveTimeout: 60_000 })
  const callerDispatcher = new GuardedDispatcher({
    policy,
    connectTimeoutMs: timeouts.connectTimeout,
    headersTimeoutMs: MODEL_SILENCE_MS,
    bodyTimeoutMs: MODEL_SILENCE_MS,
  })
  return {
    ...config.model,
    readKey: config.read,
    dispatcher,
    callerDispatcher,
    checkCallerUrl: (url) => void checkUrl(url, { policy, schemes: ['http', 'https'] }),
    close: async () => {
      await Promise.all([dispatcher.close(), callerDispatcher.close()])
    },
  }
}

/**
 * Through the proxies that the environment names, where it says so as it does for Node.js itself. What callers name never goes there: a
 * proxy resolves names itself, so nobody could check the address.
 */
function ownDispatcher({ usesProxy, read }: ServerConfig, options: HttpAgent.Options): Dispatcher {
  if (!usesProxy) return new HttpAgent(options)
  const named = (name: string): string => read(name.toLowerCase()) ?? read(name) ?? ''
  const [httpProxy, httpsProxy, noProxy] = [named('HTTP_PROXY'), named('HTTPS_PROXY'), named('NO_PROXY')]
  return new EnvHttpProxyAgent({ ...options, httpProxy, httpsProxy, noProxy })
}
