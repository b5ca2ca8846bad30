/** Counts how often a text of one line occurs in bytes that arrive in pieces. */
export class MarkCounter {
  count = 0
  readonly #mark: Buffer
  #tail: Buffer = EMPTY

  constructor(mark: string) {
    this.#mark = Buffer.from(mark)
  }

  reset(): void {
    this.count = 0
    this.#tail = EMPTY
  }

  feed(bytes: Buffer): void {
    const whole = this.#tail.length === 0 ? bytes : Buffer.concat([this.#tail, bytes])
    for (let at = whole.indexOf(this.#mark); at >= 0; at = whole.indexOf(this.#mark, at + this.#mark.length))
      this.count++
    // A piece that ends with its line cannot hold the beginning of a mark; most do.
    this.#tail = whole.at(-1) === 0x0a ? EMPTY : Buffer.from(whole.subarray(-(this.#mark.length - 1)))
  }
}

const EMPTY: Buffer = Buffer.alloc(0)
