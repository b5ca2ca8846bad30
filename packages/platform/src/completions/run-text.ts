import { isTextDelta, type Message, type ModelEvent, type RunEnded, textOf } from '@bureau/protocol'
import type { LogEvent } from '@bureau/runtime'
import { storable } from '../db/storable.ts'

/**
 * Takes a run's text for its user out of the events of its log: what the agents of the user's conversation say.
 *
 * Messages are set apart by a blank line. What agents say to each other, reasoning and tools are not part of it; where to
 * sign in to a tool server is.
 */
export class RunText {
  readonly #spoken = new Set<string>()
  #current: string | undefined
  #lastSeq = 0
  #status: RunEnded['status'] | undefined
  #incomplete = false
  #withdrawn = false

  /** Set once the run has ended. */
  get status(): RunEnded['status'] | undefined {
    return this.#status
  }

  /** True: events are missing that may have held text. */
  get incomplete(): boolean {
    return this.#incomplete
  }

  /** True: some of the text so far does not count any more. */
  get withdrawn(): boolean {
    return this.#withdrawn
  }

  /** The text that the next event of the log adds. */
  read(event: LogEvent, seq: number): string {
    const isMissing = seq !== this.#lastSeq + 1 && this.#status === undefined && event.type !== 'run.resumed'
    this.#incomplete ||= isMissing || event.type === 'log.reset'
    this.#lastSeq = seq
    switch (event.type) {
      case 'run.resumed':
        // Text cannot be taken back: its reader is cut off, and looks the answer up.
        this.#withdrawn ||= event.withdrawn.some((id) => this.#spoken.has(id))
        return ''
      case 'model.event':
        return this.#onModelEvent(event)
      case 'item.created':
        return event.source.callerAgent === null && event.name === 'message_output_created'
          ? this.#onMessage(event.item.raw_item)
          : ''
      case 'oauth.redirect':
        // A reader of plain text has no events: the link is in the text, in a paragraph of its own.
        return this.#say(`sign-in ${event.state}`, `Sign in to ${event.server} to continue: ${event.auth_url}`)
      case 'run.ended':
        return this.#end(event)
      default:
        return ''
    }
  }

  #onModelEvent({ kind, source, json }: ModelEvent): string {
    if (!isTextDelta(kind) || source.callerAgent !== null) return ''
    const { item_id: itemId, delta } = JSON.parse(json) as { item_id?: unknown; delta?: unknown }
    return this.#say(String(itemId), String(delta))
  }

  /** A message whose text did not come in pieces. */
  #onMessage(item: Message): string {
    if (item.type !== 'message' || this.#spoken.has(String(item.id))) return ''
    return this.#say(String(item.id), textOf(item.content))
  }

  #end({ status, new_messages: items }: RunEnded): string {
    this.#status = status
    if (this.#spoken.size > 0) return ''
    // Of a log that is no longer kept only this event is left: it holds the whole text.
    this.#incomplete = false
    return items.map((item, index) => (isSpoken(item) ? this.#say(`#${index}`, textOf(item.content)) : '')).join('')
  }

  #say(item: string, text: string): string {
    if (text === '') return ''
    const isNext = this.#current !== undefined && this.#current !== item
    this.#current = item
    this.#spoken.add(item)
    return storable(isNext ? `\n\n${text}` : text)
  }
}

function isSpoken({ type, role, callerAgent }: Message): boolean {
  return type === 'message' && role === 'assistant' && callerAgent == null
}
