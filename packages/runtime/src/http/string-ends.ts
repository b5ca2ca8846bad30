const QUOTE = 0x22
const BACKSLASH = 0x5c
/** Most strings are short: beginning the search that is quick in long ones takes as long as looking at these bytes. */
const NEAR = 64
const BLOCK = 512

const IS_BACKSLASH = new Uint8Array(256)
IS_BACKSLASH[BACKSLASH] = 1

/** Finds where the strings of a JSON text end, from its first to its last, and counts the escapes in them. */
export class StringEnds {
  readonly #bytes: Uint8Array
  /** In the strings whose ends were found so far. */
  escapes = 0
  // The next of them after the place where they were last searched for: no byte is searched twice.
  #quote = -1
  #backslash = -1

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  /** The place of the quote that ends the string which starts at `start`, after its own quote; or the end of the text. */
  next(start: number): number {
    const bytes = this.#bytes
    const near = Math.min(bytes.length, start + NEAR)
    for (let at = start; at < near; at++) {
      if (bytes[at] === QUOTE) return at
      if (bytes[at] === BACKSLASH) return this.#nextAmongEscapes(at)
    }
    return this.#nextAmongEscapes(this.#skipPlain(near))
  }

  /** No branch in here depends on what is escaped: a processor that guesses wrong at each would take several times as long. */
  #nextAmongEscapes(start: number): number {
    const bytes = this.#bytes
    let isEscaped = 0
    for (let at = start; at < bytes.length;) {
      const blockEnd = Math.min(bytes.length, at + BLOCK)
      let escapes = 0
      for (; at < blockEnd; at++) {
        const code = bytes[at]!
        if (((code ^ QUOTE) | isEscaped) === 0) break
        isEscaped = IS_BACKSLASH[code]! & (isEscaped ^ 1)
        escapes += isEscaped
      }
      this.escapes += escapes
      if (at < blockEnd) return at
      if (escapes === 0) at = this.#skipPlain(at)
    }
    return bytes.length
  }

  /** The first place from `at` on that has a quote or a backslash, or the end of the text. */
  #skipPlain(at: number): number {
    if (this.#quote < at) this.#quote = this.#placeOf(QUOTE, at)
    if (this.#backslash < at) this.#backslash = this.#placeOf(BACKSLASH, at)
    return Math.min(this.#quote, this.#backslash)
  }

  #placeOf(code: number, start: number): number {
    const found = this.#bytes.indexOf(code, start)
    return found < 0 ? this.#bytes.length : found
  }
}
