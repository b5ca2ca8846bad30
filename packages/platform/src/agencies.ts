import type { Agency } from '@bureau/framework'
import { ServiceError } from '@bureau/protocol'
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

/** @returns ServiceError `invalid_agent`, which says which agents can be asked. */
export function unknownEntryAgent(name: string, agents: readonly string[]): ServiceError {
  const message = `The agency has no entry-point agent ${JSON.stringify(name.slice(0, 100))}. It has: ${agents.join(', ')}.`
  return new ServiceError('invalid_agent', { message })
}
