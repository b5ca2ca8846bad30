import type { Agency } from '@bureau/framework'
import type { ServiceError } from '@bureau/protocol'
import type { Platform } from './context.ts'
import { refusedField } from './refused-field.ts'

type Deployed = Pick<Platform, 'agencies'>

/** The agents that may receive a user's message. */
export function entryAgentNames(agency: Agency): string[] {
  return agency.entryPoints.map((agent) => agent.name)
}

/** What an admission has to know of an agency. */
export type ServedAgency = {
  /** Another one when its definition is. */
  readonly version: string
  /** The agents that may receive a user's message. */
  readonly entryAgents: readonly string[]
}

/** The agencies of this deployment by their ids. */
export function servedAgencies({ agencies }: Deployed): Readonly<Record<string, ServedAgency>> {
  return Object.fromEntries(
    [...agencies].map(([id, agency]) => [id, { version: agency.version, entryAgents: entryAgentNames(agency) }]),
  )
}

/** @returns ServiceError `invalid_agent`, which says which agents can be asked. `field` of the request has named it. */
export function unknownEntryAgent(field: string, name: string, agents: readonly string[]): ServiceError {
  const message = `The agency has no entry-point agent ${JSON.stringify(name.slice(0, 100))}. It has: ${agents.join(', ')}.`
  return refusedField('invalid_agent', field, message)
}
