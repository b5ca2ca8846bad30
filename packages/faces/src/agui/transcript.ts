import type { Message } from '@ag-ui/core'
import type { AguiMessage } from './read-request.ts'

/** A longer snapshot is left out: the events before it say the same, and clients refuse frames above 10 MiB. */
const MAX_SNAPSHOT_CHARS = 1_048_576

/** Whose something is; without an id, that of the agent that talks with the user. */
export type Tag = { readonly subagentRunId?: string }

/** A message of the run. While it is open its text still grows. */
export type Entry<M extends Message = Message> = { readonly message: M; open: boolean; text?: string }

/** The conversation as an AG-UI client has it: the request's messages and what the run has added. */
export class Transcript {
  readonly #earlier: () => readonly AguiMessage[]
  #earlierText: string | undefined
  #entries: Entry[] = []

  /** @param earlier - The request's messages; asked for when they are first needed, after the run has read its files. */
  constructor(earlier: () => readonly AguiMessage[]) {
    this.#earlier = earlier
  }

  add<M extends Message>(message: M, options: { open: boolean }): Entry<M> {
    const entry: Entry<M> = { message, open: options.open }
    this.#entries.push(entry)
    return entry
  }

  /** Takes out messages that were not finished. True: there were some. */
  drop(unwanted: (entry: Entry) => boolean): boolean {
    const before = this.#entries.length
    this.#entries = this.#entries.filter((entry) => !unwanted(entry))
    return this.#entries.length < before
  }

  /**
   * `MESSAGES_SNAPSHOT` as a frame, or nothing when it would be too long.
   *
   * Open messages are in it with the text so far: a client drops every message that a snapshot leaves out.
   */
  snapshot(): string {
    this.#earlierText ??= this.#earlier()
      .map((message) => JSON.stringify(message))
      .join(',')
    const texts = this.#earlierText === '' ? [] : [this.#earlierText]
    for (const entry of this.#entries) texts.push(textOf(entry))
    const messages = texts.join(',')
    return messages.length > MAX_SNAPSHOT_CHARS ? '' : `data: {"type":"MESSAGES_SNAPSHOT","messages":[${messages}]}\n\n`
  }
}

function textOf(entry: Entry): string {
  if (entry.open) return JSON.stringify(entry.message)
  entry.text ??= JSON.stringify(entry.message)
  return entry.text
}
