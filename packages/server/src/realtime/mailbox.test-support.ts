/** What comes is there in milliseconds; on a machine that others use too, a megabyte may take seconds. */
const PATIENCE_MS = 30_000

/** What arrives, for tests that wait for some of it. Each entry is handed out once. */
export class Mailbox<T> {
  readonly #what: string
  #entries: T[] = []
  #waiting: { fits: (entry: T) => boolean; take: (entry: T) => void }[] = []

  constructor(what: string) {
    this.#what = what
  }

  add(entry: T): void {
    const at = this.#waiting.findIndex(({ fits }) => fits(entry))
    if (at < 0) this.#entries.push(entry)
    else this.#waiting.splice(at, 1)[0]!.take(entry)
  }

  /** @throws Error nothing fitting came in time; the message lists what else is there. */
  next(fits: (entry: T) => boolean): Promise<T> {
    const at = this.#entries.findIndex(fits)
    if (at >= 0) return Promise.resolve(this.#entries.splice(at, 1)[0]!)
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`waited for ${this.#what}; there are: ${JSON.stringify(this.#entries).slice(0, 2_000)}`))
      }, PATIENCE_MS)
      const take = (entry: T): void => {
        clearTimeout(timer)
        resolve(entry)
      }
      this.#waiting.push({ fits, take })
    })
  }

  /** What has come and was not handed out. */
  get left(): readonly T[] {
    return this.#entries
  }
}
