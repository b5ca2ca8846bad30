import type { LogEvent } from '@bureau/runtime'

/** What happens in a run, in a sentence for people who wait for it; undefined for what they need not know. */
export function stepOf(event: LogEvent): string | undefined {
  switch (event.type) {
    case 'agent.updated':
      return `${event.source.agent} works on it.`
    case 'item.created':
      if (event.name !== 'tool_called') return undefined
      return `${event.source.agent} calls ${nameOf(event.item.raw_item)}.`
    case 'oauth.redirect':
      return `Sign in to ${event.server}: ${event.auth_url}`
    default:
      return undefined
  }
}

/** Tools that the provider runs have no name but their type. */
function nameOf({ name, type }: Readonly<Record<string, unknown>>): string {
  return typeof name === 'string' ? name : typeof type === 'string' ? type : 'a tool'
}
