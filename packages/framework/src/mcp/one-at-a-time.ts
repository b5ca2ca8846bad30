/** Lets pieces of work wait for each other, in the order in which they came. */
export class OneAtATime {
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0

  run<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#waiting++
    const mine = this.#last.then(work).finally(() => this.#waiting--)
    this.#last = mine.catch(() => {})
    return mine
  }

  /** Resolves when all that has come so far is done; undefined when nothing is being done. */
  idle(): Promise<unknown> | undefined {
    return this.#waiting === 0 ? undefined : this.#last
  }
}
