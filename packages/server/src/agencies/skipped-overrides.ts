import { type Agency, type ClientConfig, type ModelAccess, skippedOverride } from '@bureau/framework'
import type { Logger } from '@bureau/runtime'

/** Notes which agents of an agency a request's `client_config` does not reach; the run proceeds with their own models. */
export function logSkippedOverrides(
  agency: Agency,
  config: ClientConfig | undefined,
  { models, log }: { readonly models: ModelAccess; readonly log: Logger },
): void {
  if (!config) return
  const agents = Map.groupBy(agency.agents.values(), (agent) => skippedOverride(agent, config, models))
  for (const [reason, unreached] of agents) {
    if (reason === undefined) continue
    log.warn({ agents: unreached.map(({ name }) => name).join(', ') }, `client_config is not applied: ${reason}`)
  }
}
