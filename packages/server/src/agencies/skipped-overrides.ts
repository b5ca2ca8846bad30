import { type Agency, type ClientConfig, type ModelAccess, skippedOverride } from '@bureau/framework'
import type { Logger } from '@bureau/runtime'

/** Notes which agents of an agency a request's `client_config` does not reach; the run proceeds with their own models. */
export function logSkippedOverrides(
  agency: Agency,
  config: ClientConfig | undefined,
  { models, log }: { readonly models: ModelAccess; readonly log: Logger },
): void {
  if (!config) return
  for (const agent of agency.agents.values()) {
    const reason = skippedOverride(agent, config, models)
    if (reason !== undefined) log.warn({ agent: agent.name }, `client_config is not applied: ${reason}`)
  }
}
