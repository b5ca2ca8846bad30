/** Longer texts are not kept: they are mostly pictures, and an open stream would hold each of them twice. */
const MAX_KEPT_CHARACTERS = 1_048_576

/**
 * The JSON text of a list that grows from one request of a conversation to the next. What the request before has sent is
 * not written again: its text is kept, and only what was added is new.
 */
export class ListText<Entry extends object> {
  readonly #sent: (entries: readonly Entry[]) => readonly object[]
  #entries: readonly Entry[] = []
  #text = ''

  /** @param sent - What is sent for some entries of the list: each by itself, whatever stands around it. */
  constructor(sent: (entries: readonly Entry[]) => readonly object[]) {
    this.#sent = sent
  }

  /** The members of the list as JSON, without its brackets. Entries that were written once must not be changed. */
  write(entries: readonly Entry[]): string {
    const goesOn = this.#entries.every((entry, place) => entry === entries[place])
    const before = goesOn ? this.#text : ''
    const added = JSON.stringify(this.#sent(goesOn ? entries.slice(this.#entries.length) : entries)).slice(1, -1)
    const text = before !== '' && added !== '' ? `${before},${added}` : before + added
    const isKept = text.length <= MAX_KEPT_CHARACTERS
    this.#entries = isKept ? entries : []
    this.#text = isKept ? text : ''
    return text
  }
}
