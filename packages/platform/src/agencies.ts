import type { Agency } from '@bureau/framework'
import type { Platform } from './context.ts'

type Deployed = Pick<Platform, 'agencies'>

/** The agents that may receive a user's message. */
export function entryAgentNames(agency: Agency): string[] {
  return agency.entryPoints.map((agent) => agent.name)
}

/** The entry-capable agents of each agency of this deployment. */
export function entryAgentsOf({ agencies }: Deployed): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries([...agencies].map(([id, agency]) => [id, entryAgentNames(agency)]))
}
