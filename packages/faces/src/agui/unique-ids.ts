/**
 * Gives each message and call of a run an id that no other one has, those of the request included.
 *
 * Some model servers count from one in every answer; a client would add the new text to the old message of that id.
 */
export class UniqueIds {
  readonly #taken: Set<string>

  constructor(taken: Iterable<string>) {
    this.#taken = new Set(taken)
  }

  /** The wanted id, with a number behind it when it is taken. */
  take(wanted: string): string {
    let id = wanted
    for (let number = 2; this.#taken.has(id); number++) id = `${wanted}_${number}`
    this.#taken.add(id)
    return id
  }
}
