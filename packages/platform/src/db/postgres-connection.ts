import { drizzle } from 'drizzle-orm/node-postgres'
import type { PoolClient, QueryConfig, QueryResult, QueryResultRow } from 'pg'
import type { Tx } from './operation.ts'
import { PlanAge } from './plan-age.ts'
import { DRIZZLE, type Opening } from './transaction.ts'

/** Asked for on a standby, the number of a transaction would be an error. */
const NUMBER = 'CASE WHEN NOT pg_is_in_recovery() THEN pg_current_xact_id() END::text AS xid'

/**
 * Another one after a crash or a failover, when the server has given up what was not on its disk, and may give the numbers of
 * those transactions to others. A server that was stopped in an orderly way has the same again.
 */
export const SERVER_LIFE = '(SELECT stats_reset::text FROM pg_stat_wal) AS life'

type PostgresConnectionOptions = {
  /** False: no statement is kept on the connection. */
  readonly keepStatements: boolean
}

/** One connection of a pool, for one transaction after the other. Its client is in pipeline mode. */
export class PostgresConnection {
  readonly tx: Tx
  readonly #client: PoolClient
  readonly #keepStatements: boolean
  readonly #plans = new PlanAge()
  #serverLife: string | undefined
  #opening: { readonly begin: string; readonly settings: QueryConfig } | undefined
  #tag = 'ROLLBACK'
  #xid: string | null = null

  constructor(client: PoolClient, { keepStatements }: PostgresConnectionOptions) {
    this.#client = client
    this.#keepStatements = keepStatements
    // Drizzle asks a connection for nothing but `query`, always in this form.
    const query = (config: QueryConfig, values?: unknown[]): Promise<QueryResult> => this.#query(config, values)
    this.tx = drizzle({ query } as unknown as PoolClient, DRIZZLE)
    const asked = client.query<{ life: string }>(`SELECT ${SERVER_LIFE}`)
    asked.then(({ rows }) => (this.#serverLife = rows[0]?.life)).catch(() => {}) // nothing else succeeds then
  }

  /** See `SERVER_LIFE`: of the server to which this connection leads. */
  get serverLife(): string | undefined {
    return this.#serverLife
  }

  /** Names the open transaction, should COMMIT go unanswered; null when it cannot have written anything. */
  get xid(): string | null {
    return this.#xid
  }

  /** The command tag of what was sent last; `unknown` while it is unanswered. */
  get tag(): string {
    return this.#tag
  }

  /**
   * Opens a transaction, together with its first query; one without a query is never sent. Of one that `writes` the number is
   * known with the answer to that query.
   */
  begin({ begin, settings, writes }: Opening & { readonly writes: boolean }): void {
    this.#xid = null
    const set = Object.keys(settings).map((name, index) => `set_config('${name}', $${index + 1}, true)`)
    const text = `SELECT ${[...set, ...(writes ? [NUMBER] : [])].join(', ')}`
    this.#opening = { begin: this.#plans.opening(begin), settings: { text, values: Object.values(settings) } }
  }

  readonly exec = async (statements: string): Promise<string> => {
    if (this.#opening !== undefined) {
      this.#opening = undefined
      return (this.#tag = statements) // of what was not begun
    }
    const answer = await this.#send(statements)
    return answer.command
  }

  async #query(config: QueryConfig, values?: unknown[]): Promise<QueryResult> {
    const opening = this.#opening
    if (opening === undefined) return this.#ask(config, values)
    this.#opening = undefined
    const { stream } = this.#client.connection
    stream.cork() // all in one packet
    const opened = [this.#send(opening.begin), this.#ask<{ xid?: string }>(opening.settings)] as const
    const answer = this.#ask(config, values)
    stream.uncork()
    answer.catch(() => {}) // after a failed opening nothing else succeeds
    const [, { rows }] = await Promise.all(opened)
    this.#xid = rows[0]?.xid ?? null
    return answer
  }

  #ask<Row extends QueryResultRow>(config: QueryConfig, values?: unknown[]): Promise<QueryResult<Row>> {
    const name = this.#keepStatements ? nameOf(config) : undefined
    if (name !== undefined) config.name = name // made for this one query by whoever asks, who does not read it
    return this.#client.query<Row>(config, values)
  }

  /** The answer to the last of these statements. */
  async #send(statements: string): Promise<QueryResult> {
    this.#tag = 'unknown'
    const answers: QueryResult | QueryResult[] = await this.#client.query(statements)
    const last = Array.isArray(answers) ? answers.at(-1)! : answers
    this.#tag = last.command
    return last
  }
}

/** Other statements beyond these are sent without a name: whoever makes texts on the fly must not fill the server's memory. */
const MAX_NAMES = 500

const names = new Map<string, string>()

/**
 * Under its name the server parses and plans a statement once for each connection, and then keeps it.
 *
 * The same name for the same text on every connection. Those that `prepared` has made have a name in drizzle too, and are as
 * many as there are in the program; of all others undefined when there are too many.
 */
function nameOf({ name: given, text }: QueryConfig): string | undefined {
  const known = names.get(text)
  if (known !== undefined || (given === undefined && names.size >= MAX_NAMES)) return known
  const name = `bureau_${names.size + 1}`
  names.set(text, name)
  return name
}
