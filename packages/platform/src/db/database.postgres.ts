import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '@bureau/protocol'
import { Client, type ClientConfig, Pool, type PoolClient } from 'pg'
import { isConnectionLost, sqlstateOf, toDatabaseError, unavailable } from './database-error.ts'
import { CommitUnknownError, type Database, type RunOptions } from './database.ts'
import { LaneQueue } from './lane-queue.ts'
import type { Lane, Operation } from './operation.ts'
import { PostgresConnection, SERVER_LIFE } from './postgres-connection.ts'
import { withSettings } from './postgres-url.ts'
import { commit, isTransactionOver, prepare, type Session, SETTINGS } from './transaction.ts'

type PostgresOptions = {
  readonly url: string
  /** Connections of this process. Default 10, behind a pooler 5. */
  readonly poolSize?: number
  /** False: no statement is kept on a connection, because a pooler hands it to others between transactions. Default true. */
  readonly keepStatements?: boolean
}

/** More waiting operations than this are refused with `overloaded`. */
const QUEUE_LIMIT = 500
/** Admissions wait for locks of chats and consumers. A crowd at one of them leaves a third of the connections to all others. */
const SHARE_OF_ADMISSIONS = 2 / 3
/** How long a new connection may take. */
const CONNECT_MS = 2_000
/** A request waits this long for a free connection, then it is refused. */
const WAIT_MS = 2_000
/** An admission has nobody who could answer it sooner: with the database far away, a crowd is admitted one after the other. */
const ADMISSION_WAIT_MS = 10_000
/** Longer than between two tasks of an idle process: making a connection costs the server more than any of them. */
const IDLE_MS = 90_000
/** For a heartbeat and a task at the same time. */
const KEPT_CONNECTIONS = 2
/** Above the server's own statement_timeout: a silent network counts as a lost connection after this. */
const QUERY_TIMEOUT_MS = 6_000
/** How long a lost answer to COMMIT is asked for. */
const RESOLVE_MS = 2_000

/** The server is a standby by now, or was made read-only for the time of a switch: a new connection may lead to its successor. */
const READ_ONLY = '25006'
/** The server, or what it grants this role, has no connection left. */
const NO_CONNECTION_LEFT = '53300'
/** After which it is asked again, or a connection of this process has become free. */
const ASK_AGAIN_MS = 100

type Waiting = { readonly lane: Lane; readonly start: () => void }

/** PostgreSQL 15 and later, through a pool. Operations run in this process; lanes decide who gets a free connection. */
export class PostgresDatabase implements Database {
  readonly engine = 'postgres'
  readonly failed = new Promise<Error>(() => {}) // a server comes back; the pool reconnects
  readonly #config: ClientConfig
  readonly #pool: Pool
  readonly #waiting = new LaneQueue<Waiting>()
  readonly #connections = new WeakMap<PoolClient, PostgresConnection>()
  readonly #keepStatements: boolean
  readonly #maxAdmitting: number
  #free: number
  #admitting = 0
  #closed = false

  constructor(options: PostgresOptions) {
    this.#keepStatements = options.keepStatements ?? true
    this.#free = options.poolSize ?? (this.#keepStatements ? 10 : 5)
    this.#maxAdmitting = Math.max(1, Math.floor(this.#free * SHARE_OF_ADMISSIONS))
    this.#config = {
      connectionString: this.#keepStatements ? withSettings(options.url) : options.url,
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: QUERY_TIMEOUT_MS,
      keepAlive: true,
    }
    const size = { min: Math.min(KEPT_CONNECTIONS, this.#free), max: this.#free }
    this.#pool = new Pool({ ...this.#config, ...size, pipeline: true, idleTimeoutMillis: IDLE_MS })
    // A connection that breaks while nobody waits for it says so here; the next query on it fails by itself.
    this.#pool.on('error', () => {})
    this.#pool.on('connect', (client) => client.on('error', () => {}))
  }

  async run<Args, Result>(operation: Operation<Args, Result>, args: Args, options: RunOptions = {}): Promise<Result> {
    options.signal?.throwIfAborted()
    await this.#turn(operation.lane)
    try {
      if (this.#closed) throw unavailable('the process ends')
      return await this.#transact(operation, args, options)
    } catch (error) {
      throw toDatabaseError(error)
    } finally {
      this.#giveBack(operation.lane)
    }
  }

  async #transact<Args, Result>(operation: Operation<Args, Result>, args: Args, options: RunOptions): Promise<Result> {
    const client = await this.#connect(operation.lane)
    const connection = this.#connectionOf(client)
    let committing: { readonly result: Result } | undefined
    let isStale = false
    let ending: Promise<void> | undefined
    try {
      const session = this.#sessionOf(connection, operation)
      const prepared = await prepare(session, operation, args, () => options.signal?.throwIfAborted())
      if (!prepared.open) return prepared.result
      if (operation.onlyReads) {
        ending = commit(connection) // changes nothing, so nobody waits for it
        return prepared.result
      }
      committing = prepared
      await commit(connection)
      return prepared.result
    } catch (error) {
      isStale = sqlstateOf(error) === READ_ONLY
      if (committing && isUnanswered(error)) return await this.#resolveCommit(committing.result, connection)
      throw error
    } finally {
      const release = (): void => client.release(isStale || !isTransactionOver(connection.tag))
      if (ending) ending.then(release, release)
      else release()
    }
  }

  async #connect(lane: Lane): Promise<PoolClient> {
    const giveUpAt = performance.now() + longestWaitMs(lane)
    for (;;) {
      try {
        return await this.#pool.connect()
      } catch (error) {
        if (sqlstateOf(error) !== NO_CONNECTION_LEFT || performance.now() >= giveUpAt) throw error
        await sleep(ASK_AGAIN_MS)
      }
    }
  }

  /** One for each client of the pool, so that what is prepared with it is prepared once. */
  #connectionOf(client: PoolClient): PostgresConnection {
    let connection = this.#connections.get(client)
    if (!connection) {
      connection = new PostgresConnection(client, { keepStatements: this.#keepStatements })
      this.#connections.set(client, connection)
    }
    return connection
  }

  #sessionOf(connection: PostgresConnection, { onlyReads }: Pick<Operation<never, never>, 'onlyReads'>): Session {
    const more = this.#keepStatements ? {} : SETTINGS
    return {
      tx: connection.tx,
      begin: ({ begin, settings }) =>
        connection.begin({ begin, settings: { ...settings, ...more }, writes: !onlyReads }),
      exec: connection.exec,
    }
  }

  /** Asks the server, on a connection of its own, what became of a transaction whose COMMIT went unanswered. */
  async #resolveCommit<Result>(result: Result, { xid, serverLife }: PostgresConnection): Promise<Result> {
    if (xid === null) return result // nothing was written
    const giveUpAt = performance.now() + RESOLVE_MS
    while (performance.now() < giveUpAt) {
      const { status, life } = (await this.#statusOf(xid)) ?? {}
      if (status === 'aborted') throw unavailable('the connection broke before COMMIT arrived')
      if (status === 'committed' && life === serverLife) return result
      // After a crash the number may be that of another transaction.
      if (status === 'committed') throw new CommitUnknownError('the server crashed at COMMIT', { result })
      await sleep(50)
    }
    throw new CommitUnknownError('the answer to COMMIT was lost')
  }

  async #statusOf(xid: string): Promise<{ readonly status: string | null; readonly life: string } | undefined> {
    const client = new Client({ ...this.#config, connectionTimeoutMillis: 500, query_timeout: 500 })
    client.on('error', () => {})
    try {
      await client.connect()
      // A standby that took over does not know what the lost primary was doing.
      const { rows } = await client.query<{ status: string | null; life: string }>(
        `SELECT CASE WHEN pg_is_in_recovery() THEN NULL
          WHEN $1::xid8 >= pg_snapshot_xmax(pg_current_snapshot()) THEN 'aborted' -- nobody has had this number
          ELSE pg_xact_status($1::xid8) END AS status, ${SERVER_LIFE}`,
        [xid],
      )
      return rows[0]
    } catch {
      return undefined // unreachable for now: the caller asks again until its time is up
    } finally {
      void client.end().catch(() => {})
    }
  }

  async #turn(lane: Lane): Promise<void> {
    if (this.#hasRoom(lane)) return this.#take(lane)
    if (lane !== 'run' && this.#waiting.refusable >= QUEUE_LIMIT) {
      throw new ServiceError('overloaded', { headers: { 'Retry-After': '1' } })
    }
    await new Promise<void>((resolve, reject) => {
      const job: Waiting = { lane, start: () => (clearTimeout(timer), resolve()) }
      const refuse = (): unknown => this.#waiting.remove(job) && reject(unavailable('no free connection'))
      const timer = lane === 'run' ? undefined : setTimeout(refuse, longestWaitMs(lane))
      this.#waiting.add(job)
    })
  }

  #hasRoom(lane: Lane): boolean {
    return this.#free > 0 && (lane !== 'admission' || this.#admitting < this.#maxAdmitting)
  }

  #take(lane: Lane): void {
    this.#free--
    if (lane === 'admission') this.#admitting++
  }

  #giveBack(lane: Lane): void {
    this.#free++
    if (lane === 'admission') this.#admitting--
    const job = this.#waiting.take((waiting) => this.#hasRoom(waiting))
    if (!job) return
    this.#take(job.lane)
    job.start()
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#pool.end()
  }
}

const longestWaitMs = (lane: Lane): number => (lane === 'admission' ? ADMISSION_WAIT_MS : WAIT_MS)

/** An answer outside the classes 08, 57 and XX means that the server refused to commit. */
function isUnanswered(error: unknown): boolean {
  const sqlstate = sqlstateOf(error)
  return sqlstate === undefined ? isConnectionLost(error) : /^(08|57|XX)/.test(sqlstate)
}
