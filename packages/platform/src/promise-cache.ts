type PromiseCacheOptions = {
  /** Entries beyond these push out the oldest. */
  readonly size: number
  /** How long an entry counts. Default: until it is pushed out. */
  readonly keepMs?: number
  /** Monotonic milliseconds: a clock that is set back must not make anything count for longer. */
  readonly now?: (() => number) | undefined
}

/** What was loaded lately, by key. Of many who ask for the same thing at once, one loads it. A failure is not remembered. */
export class PromiseCache<Value> {
  readonly #entries = new Map<string, { readonly value: Promise<Value>; readonly until: number }>()
  readonly #size: number
  readonly #keepMs: number
  readonly #now: () => number

  constructor({ size, keepMs = Infinity, now = () => performance.now() }: PromiseCacheOptions) {
    this.#size = size
    this.#keepMs = keepMs
    this.#now = now
  }

  of(key: string, load: () => Promise<Value>): Promise<Value> {
    const known = this.#entries.get(key)
    if (known && known.until > this.#now()) return known.value
    const value = load()
    const entry = { value, until: this.#now() + this.#keepMs }
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    value.catch(() => this.#entries.get(key) === entry && this.#entries.delete(key))
    const [oldest] = this.#entries.keys()
    if (this.#entries.size > this.#size && oldest !== undefined) this.#entries.delete(oldest)
    return value
  }

  /** Forgets what `isWrong` says of. */
  async forget(isWrong: (value: Value) => boolean): Promise<void> {
    for (const [key, { value }] of this.#entries) {
      if (await value.then(isWrong, () => false)) this.#entries.delete(key)
    }
  }

  clear(): void {
    this.#entries.clear()
  }
}
