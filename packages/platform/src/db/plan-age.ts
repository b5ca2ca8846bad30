/** The first transaction before which plans are made anew; each next one is four times as late. */
const FIRST = 100

/**
 * Keeps the plans of one connection from ageing while its database is young.
 *
 * A kept statement is planned for its tables as they are then, and stays so until somebody counts their rows. Planned for
 * empty tables it may take any index, such as one that lists everything of an owner. So plans are made anew when four
 * times as much was done.
 */
export class PlanAge {
  #transactions = 0
  #renewAt = FIRST

  /** The statements that open the next transaction of the connection. */
  opening(statements: string): string {
    if (++this.#transactions < this.#renewAt) return statements
    this.#renewAt *= 4
    // COMMIT, because the server has begun a transaction for it, which could no longer choose its isolation.
    return `DISCARD PLANS; COMMIT; ${statements}`
  }
}
