import type { AgencyMetadata } from '@bureau/protocol'
import { agentsOf } from '../server/queries.ts'

/** What an agent may do with another. */
export type Way = 'Messages' | 'Hands over to' | 'Messages or hands over to'

type Connection = { readonly id: string; readonly source: string; readonly target: string; readonly way: Way }

/** Who may reach whom, and how. */
export function connectionsOf({ edges }: AgencyMetadata): Connection[] {
  return edges
    .filter(({ type }) => type === 'communication')
    .map(({ id, source, target, data }) => ({ id, source, target, way: wayOf(data?.kinds ?? []) }))
}

function wayOf(kinds: readonly ('message' | 'handoff')[]): Way {
  if (!kinds.includes('handoff')) return 'Messages'
  return kinds.includes('message') ? 'Messages or hands over to' : 'Hands over to'
}

/** The agents that one may reach, each with its name. */
export function reachedFrom(agent: string, metadata: AgencyMetadata): (Connection & { readonly label: string })[] {
  const labels = new Map(agentsOf(metadata).map(({ id, data }) => [id, data.label]))
  return connectionsOf(metadata)
    .filter(({ source }) => source === agent)
    .map((connection) => ({ ...connection, label: labels.get(connection.target) ?? connection.target }))
}
