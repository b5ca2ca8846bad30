import { Parts } from './parts.ts'
import type { StreamEvent } from './stream-event.ts'

/** What the agents say to the user, as it comes: piece by piece, or a whole message that nobody has streamed. */
export async function* textOfRun(events: AsyncIterable<StreamEvent>): AsyncGenerator<string, void> {
  const parts = new Parts([])
  /** How many characters of each message the reader has. */
  const said = new Map<string, number>()
  let last: string | undefined
  for await (const event of events) {
    parts.add(event)
    for (const part of parts.all) {
      if (part.type !== 'text' || part.parent !== null) continue
      const { id, text } = part
      const more = text.slice(said.get(id))
      if (more === '') continue
      said.set(id, text.length)
      yield last === undefined || last === id ? more : `\n\n${more}`
      last = id
    }
  }
}
