import { type Agency, type ClientConfig, isProvider, type ModelAccess, skippedOverride } from '@bureau/framework'
import type { Logger } from '@bureau/runtime'

/** Notes which keys are of no use, and which agents of an agency a request's `client_config` does not reach; the run proceeds with their own models. */
export function logSkippedOverrides(
  agency: Agency,
  config: ClientConfig,
  { models, log }: { readonly models: ModelAccess; readonly log: Logger },
): void {
  const unknown = Object.keys(config.thirdparty_keys ?? {}).filter((name) => !isProvider(name))
  if (unknown.length > 0) {
    const providers = unknown.slice(0, 20).map((name) => name.slice(0, 64))
    log.warn({ providers: providers.join(', ') }, 'client_config: keys of unknown providers are ignored')
  }
  const agents = Map.groupBy(agency.agents.values(), (agent) => skippedOverride(agent, config, models))
  for (const [reason, unreached] of agents) {
    if (reason === undefined) continue
    log.warn({ agents: unreached.map(({ name }) => name).join(', ') }, `client_config is not applied: ${reason}`)
  }
}
