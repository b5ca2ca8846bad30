import { Parts } from './parts.ts'
import type { StreamEvent } from './stream-event.ts'

/** What the agents say to the user, as it comes: piece by piece, or a whole message that nobody has streamed. */
export async function* textOfRun(events: AsyncIterable<StreamEvent>): AsyncGenerator<string, void> {
  const parts = new Parts()
  /** How many characters of each message the reader has. */
  const said = new Map<string, number>()
  let last: string | undefined
  for await (const event of events) {
    parts.add(event)
    for (const part of parts.all) {
      if (part.type !== 'text' || part.parent !== null) continue
      const { id, text } = part
      const from = said.get(id) ?? 0
      said.set(id, text.length)
      if (text.length <= from) continue
      // To cut a piece out of a long text takes as long as to write all of it anew.
      const more = event.type === 'raw_response_event' ? event.data.delta! : text.slice(from)
      yield last === undefined || last === id ? more : `\n\n${more}`
      last = id
    }
  }
}
