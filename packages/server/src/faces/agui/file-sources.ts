import { randomUUID } from 'node:crypto'
import type { WireItem } from '@bureau/protocol'
import type { AguiMessage } from './read-request.ts'

/** The request's messages with the one that says where this turn's files came from, before the message they are for. */
export function withFileSources(messages: readonly AguiMessage[], sources: WireItem | undefined): AguiMessage[] {
  if (typeof sources?.['content'] !== 'string') return [...messages]
  const note: AguiMessage = { id: `file_sources_${randomUUID()}`, role: 'system', content: sources['content'] }
  return [...messages.slice(0, -1), note, ...messages.slice(-1)]
}
