import type { Part } from '@bureau/client'
import type { Turn } from '../chats/chat.ts'

/** Where a run is, and where it has been. */
export type Activity = {
  /** Agents that are at work now. */
  readonly active: ReadonlySet<string>
  readonly visited: ReadonlySet<string>
  /** Ways that the run has taken, as `from->to`. */
  readonly ways: ReadonlySet<string>
  /** Tools that run now, as `agent tool`. */
  readonly tools: ReadonlySet<string>
}

export const NO_ACTIVITY: Activity = { active: new Set(), visited: new Set(), ways: new Set(), tools: new Set() }

/** What a turn shows of the agency. */
export function activityOf(turn: Turn | undefined): Activity {
  if (!turn) return NO_ACTIVITY
  const visited = new Set(turn.parts.map(({ agent }) => agent).filter(Boolean))
  const ways = new Set<string>()
  const tools = new Set<string>()
  for (const part of turn.parts) {
    if (part.type === 'agent') ways.add(`${part.agent}->${part.name}`)
    if (part.type === 'tool' && (part.state === 'running' || part.state === 'input'))
      tools.add(`${part.agent} ${part.name}`)
  }
  for (const way of handoffsOf(turn.parts)) ways.add(way)
  const active = new Set(turn.status === 'running' ? workingAgents(turn.parts) : [])
  return { active, visited, ways, tools }
}

/** The speaker of the conversation with the user changes by handoffs alone. */
function handoffsOf(parts: readonly Part[]): string[] {
  const speakers = parts.filter(({ parent, agent }) => parent === null && agent !== '').map(({ agent }) => agent)
  return speakers.flatMap((agent, at) =>
    at > 0 && speakers[at - 1] !== agent ? [`${speakers[at - 1]}->${agent}`] : [],
  )
}

/** Whoever spoke last in the conversation with the user, and those who answer a message now. */
function workingAgents(parts: readonly Part[]): string[] {
  const last = parts.findLast(({ parent, agent }) => parent === null && agent !== '')
  const nested = parts.flatMap((part) => (part.type === 'agent' && part.state === 'running' ? [part.name] : []))
  return [...(last ? [last.agent] : []), ...nested]
}
