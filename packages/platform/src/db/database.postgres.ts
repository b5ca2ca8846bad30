import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '@bureau/protocol'
import { drizzle } from 'drizzle-orm/node-postgres'
import { Client, type ClientBase, type ClientConfig, Pool, type PoolClient, type QueryResult } from 'pg'
import { isConnectionLost, sqlstateOf, toDatabaseError, unavailable } from './database-error.ts'
import { CommitUnknownError, type Database, type RunOptions } from './database.ts'
import { LaneQueue } from './lane-queue.ts'
import { withNamedStatements } from './named-statements.ts'
import type { Lane, Operation, Tx } from './operation.ts'
import { commit, DRIZZLE, isTransactionOver, prepare, type Session } from './transaction.ts'

export type PostgresOptions = {
  readonly url: string
  /** Connections of this process. Default 10. */
  readonly poolSize?: number
  /** False: no statement is kept on a connection, because a pooler hands it to others between transactions. Default true. */
  readonly keepStatements?: boolean
}

/** More waiting operations than this are refused with `overloaded`. */
const QUEUE_LIMIT = 500
/** A request waits this long for a free connection, then it is refused. */
const WAIT_MS = 2_000
/** Above the server's own statement_timeout: a silent network counts as a lost connection after this. */
const QUERY_TIMEOUT_MS = 6_000
/** How long a lost answer to COMMIT is asked for. */
const RESOLVE_MS = 2_000

type Waiting = { readonly lane: Lane; readonly start: () => void }

/** PostgreSQL 15 and later, through a pool. Operations run in this process; lanes decide who gets a free connection. */
export class PostgresDatabase implements Database {
  readonly engine = 'postgres'
  readonly failed = new Promise<Error>(() => {}) // a server comes back; the pool reconnects
  readonly #config: ClientConfig
  readonly #pool: Pool
  readonly #waiting = new LaneQueue<Waiting>()
  readonly #transactions = new WeakMap<PoolClient, Tx>()
  readonly #keepStatements: boolean
  #free: number

  constructor(options: PostgresOptions) {
    this.#free = options.poolSize ?? 10
    this.#keepStatements = options.keepStatements ?? true
    this.#config = {
      connectionString: options.url,
      connectionTimeoutMillis: WAIT_MS,
      query_timeout: QUERY_TIMEOUT_MS,
      keepAlive: true,
    }
    this.#pool = new Pool({ ...this.#config, max: this.#free })
    // A connection that breaks while nobody waits for it says so here; the next query on it fails by itself.
    this.#pool.on('error', () => {})
    this.#pool.on('connect', (client) => client.on('error', () => {}))
  }

  async run<Args, Result>(operation: Operation<Args, Result>, args: Args, options: RunOptions = {}): Promise<Result> {
    options.signal?.throwIfAborted()
    await this.#turn(operation.lane)
    try {
      return await this.#transact(operation, args, options)
    } catch (error) {
      throw toDatabaseError(error)
    } finally {
      this.#next()
    }
  }

  async #transact<Args, Result>(operation: Operation<Args, Result>, args: Args, options: RunOptions): Promise<Result> {
    const client = await this.#pool.connect()
    let tag = 'ROLLBACK'
    const session: Session = {
      tx: this.#transactionsOf(client),
      exec: async (statements) => {
        tag = 'unknown'
        tag = await execute(client, statements)
        return tag
      },
    }
    let xid: string | null = null
    let committing: { readonly result: Result } | undefined
    try {
      const prepared = await prepare(session, operation, args, {
        stillWanted: () => options.signal?.throwIfAborted(),
        beforeCommit: async () => {
          xid = await transactionId(client)
        },
      })
      if (!prepared.open) return prepared.result
      committing = prepared
      await commit(session)
      return prepared.result
    } catch (error) {
      if (committing && isUnanswered(error)) return await this.#resolveCommit(committing.result, xid)
      throw error
    } finally {
      client.release(!isTransactionOver(tag))
    }
  }

  /** One for each connection, so that what is prepared with it is prepared once. */
  #transactionsOf(client: PoolClient): Tx {
    let tx = this.#transactions.get(client)
    if (!tx) {
      tx = drizzle(this.#keepStatements ? withNamedStatements(client) : client, DRIZZLE)
      this.#transactions.set(client, tx)
    }
    return tx
  }

  /** Asks the server, on a connection of its own, what became of a transaction whose COMMIT went unanswered. */
  async #resolveCommit<Result>(result: Result, xid: string | null): Promise<Result> {
    if (xid === null) return result // nothing was written
    const giveUpAt = performance.now() + RESOLVE_MS
    while (performance.now() < giveUpAt) {
      const status = await this.#statusOf(xid)
      if (status === 'committed') return result
      if (status === 'aborted') throw unavailable('the connection broke before COMMIT arrived')
      await sleep(50)
    }
    throw new CommitUnknownError('the answer to COMMIT was lost')
  }

  async #statusOf(xid: string): Promise<string | null> {
    const client = new Client({ ...this.#config, connectionTimeoutMillis: 500, query_timeout: 500 })
    client.on('error', () => {})
    try {
      await client.connect()
      // A standby that took over does not know what the lost primary was doing.
      const { rows } = await client.query<{ status: string | null }>(
        'SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_xact_status($1::xid8) END AS status',
        [xid],
      )
      return rows[0]?.status ?? null
    } catch {
      return null // unreachable for now: the caller asks again until its time is up
    } finally {
      void client.end().catch(() => {})
    }
  }

  async #turn(lane: Lane): Promise<void> {
    if (this.#free > 0) {
      this.#free--
      return
    }
    if (lane !== 'run' && this.#waiting.refusable >= QUEUE_LIMIT) {
      throw new ServiceError('overloaded', { headers: { 'Retry-After': '1' } })
    }
    await new Promise<void>((resolve, reject) => {
      const job: Waiting = { lane, start: () => (clearTimeout(timer), resolve()) }
      const timer = lane === 'run' ? undefined : setTimeout(() => this.#waiting.remove(job) && reject(late()), WAIT_MS)
      this.#waiting.add(job)
    })
  }

  #next(): void {
    const job = this.#waiting.take()
    if (job) job.start()
    else this.#free++
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }
}

const late = (): ServiceError => unavailable('no free connection')

/** An answer outside the classes 08, 57 and XX means that the server refused to commit. */
function isUnanswered(error: unknown): boolean {
  const sqlstate = sqlstateOf(error)
  return sqlstate === undefined ? isConnectionLost(error) : /^(08|57|XX)/.test(sqlstate)
}

/** Names the transaction, should COMMIT go unanswered; null when it wrote nothing. */
async function transactionId(client: ClientBase): Promise<string | null> {
  const { rows } = await client.query<{ xid: string | null }>('SELECT pg_current_xact_id_if_assigned()::text AS xid')
  return rows[0]?.xid ?? null
}

async function execute(client: ClientBase, statements: string): Promise<string> {
  const answer: QueryResult | QueryResult[] = await client.query(statements)
  return (Array.isArray(answer) ? answer.at(-1) : answer)?.command ?? ''
}
