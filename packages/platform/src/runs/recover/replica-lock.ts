import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { StartError } from '@bureau/protocol'
import { Client } from 'pg'
import { findDroppedSettings, reasonOf } from '../../db/connect-postgres.ts'
import { sqlstateOf } from '../../db/database-error.ts'
import { withSettings } from '../../db/postgres-url.ts'
import { LOCK_CLASS, WATCHER_LOCK } from './replicas.repo.ts'

type ReplicaLockOptions = {
  /** Of the database itself: a pooler would hand the session on. */
  readonly url: string
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** These processes have lost their lock, and with it their life. Called in the process that watches the others. */
  readonly onDead: (bootIds: readonly string[]) => void
  /** The lock cannot be held. Called once until it is held again, however often that is tried. */
  readonly onError: (error: unknown) => void
}

/** How often the watcher checks the locks of all processes, as long as there are others. */
const WATCH_MS = 500
/** How often any other process checks its own lock and whether somebody watches. */
const CHECK_MS = 1_000
/** How often a process that is alone checks its lock, and whether it still is. */
const ALONE_MS = 2_000
const RECONNECT_MS = 250
const ANSWER_MS = 3_000
/** After a restart of the database all locks are gone, and everybody needs a moment to take theirs again. */
const WARM_UP_MS = 10_000

/**
 * So that the server notices a lost machine after 9 seconds, and frees what its session had locked. Poolers, which would hand the
 * session on, refuse settings of a connection, or drop them.
 */
const SETTINGS = {
  tcp_keepalives_idle: '3',
  tcp_keepalives_interval: '2',
  tcp_keepalives_count: '3',
  tcp_user_timeout: '9000',
}

const IS_STALE = `current_setting('transaction_read_only') = 'on' AS is_stale`

/** Under their names the server plans them once for each connection. */
const LOCKS = {
  name: 'locks',
  text: `SELECT boot_id, objid IS NULL AS missing, ${IS_STALE} FROM replicas LEFT JOIN pg_locks ON locktype = 'advisory' AND granted
    AND objsubid = 2 AND objid = lock_id::oid AND classid = ${LOCK_CLASS}::oid
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  WHERE state IN ('live','draining') AND lock_id IS NOT NULL`,
}
const TRY_TO_WATCH = {
  name: 'try_to_watch',
  text: `SELECT pg_try_advisory_lock(${LOCK_CLASS}, ${WATCHER_LOCK}) AS watches, ${IS_STALE}`,
}

/**
 * Shows the other processes that this one lives, by a lock that its session holds: the server frees it when the process
 * dies, and not when the process is only stopped.
 *
 * Nobody ever waits for a lock, because a waiting session keeps a snapshot and with it VACUUM from its work. The
 * process that holds the watcher's lock watches all others, which try to get that lock with each of their checks.
 */
export class ReplicaLock {
  /** Its number, as the records have it. */
  readonly id = randomInt(1, 2 ** 31 - 1)
  readonly #options: ReplicaLockOptions
  readonly #closing = new AbortController()
  #aliveAt: number
  #isWatcher = false
  /** That the lock cannot be held was said, and has not been held since. */
  #isReported = false
  #missing: ReadonlySet<string> = new Set()
  #running: Promise<void> = Promise.resolve()

  private constructor(options: ReplicaLockOptions) {
    this.#options = options
    this.#aliveAt = options.now()
  }

  /** @throws StartError the database cannot be reached. */
  static async open(options: ReplicaLockOptions): Promise<ReplicaLock> {
    const lock = new ReplicaLock(options)
    const client = await lock.#connect().catch((cause: unknown) => {
      const what = 'DATABASE_DIRECT_URL (default: DATABASE_URL): no connection to the database itself, past any pooler'
      throw new StartError(`${what}: ${reasonOf(cause)}.`, { cause })
    })
    lock.#running = lock.#keep(client)
    return lock
  }

  /** When the lock was surely held, or the database was away for everybody. Monotonic milliseconds. */
  get aliveAt(): number {
    return this.#aliveAt
  }

  /** True: this process watches the others. */
  get isWatcher(): boolean {
    return this.#isWatcher
  }

  /** Gives the lock back. Call it when the records say that the process has ended. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#running
  }

  /** Holds the lock over any number of connections. Never throws. */
  async #keep(first: Client): Promise<void> {
    let client: Client | undefined = first
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        client ??= await this.#connect()
        await this.#hold(client)
      } catch (error) {
        if (signal.aborted) break
        if (isAwayForAll(error)) this.#aliveAt = this.#options.now()
        if (!this.#isReported) this.#options.onError(error)
        this.#isReported = true
      }
      this.#isWatcher = false
      await client?.end().catch(() => {})
      client = undefined
      await sleep(RECONNECT_MS, undefined, { signal, ref: false }).catch(() => {})
    }
    await client?.end().catch(() => {})
  }

  /** Others may hold the same lock: a session of this process that the server still takes for alive. */
  async #connect(): Promise<Client> {
    const client = new Client({
      connectionString: withSettings(withSettings(this.#options.url), SETTINGS),
      connectionTimeoutMillis: ANSWER_MS,
      query_timeout: ANSWER_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: 3_000,
    })
    client.on('error', () => {}) // the query in progress, or the next one, fails by itself
    try {
      await client.connect()
      const dropped = await findDroppedSettings(client)
      if (dropped !== undefined) throw new Error(dropped)
      await client.query(`SELECT pg_advisory_lock_shared(${LOCK_CLASS}, $1)`, [this.id])
    } catch (error) {
      await client.end().catch(() => {})
      throw error
    }
    this.#aliveAt = this.#options.now()
    return client
  }

  /** Looks after the lock, and after the others, until the connection is lost. @throws What has happened to it. */
  async #hold(client: Client): Promise<void> {
    const { now } = this.#options
    const connectedAt = now()
    const lost = new AbortController()
    client.once('end', () => lost.abort(new Error('the connection was lost')))
    const signal = AbortSignal.any([this.#closing.signal, lost.signal])
    this.#missing = new Set()
    for (;;) {
      this.#isWatcher ||= await tryToWatch(client)
      const watched = this.#isWatcher ? await this.#watch(client, { isWarm: now() - connectedAt >= WARM_UP_MS }) : 0
      this.#aliveAt = now()
      this.#isReported = false
      const pauseMs = watched > 1 ? WATCH_MS : this.#isWatcher ? ALONE_MS : CHECK_MS
      await sleep(pauseMs, undefined, { signal, ref: false })
    }
  }

  /** A process is dead whose lock is missing twice in a row. @returns How many there are, this one and the dead included. */
  async #watch(client: Client, { isWarm }: { readonly isWarm: boolean }): Promise<number> {
    const { rows } = await client.query<{ boot_id: string; missing: boolean; is_stale: boolean }>(LOCKS)
    requireCurrent(rows[0])
    const missing = rows.filter((row) => row.missing).map((row) => row.boot_id)
    const dead = missing.filter((bootId) => this.#missing.has(bootId))
    this.#missing = new Set(missing)
    if (isWarm && dead.length > 0) this.#options.onDead(dead)
    return rows.length
  }
}

async function tryToWatch(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ watches: boolean; is_stale: boolean }>(TRY_TO_WATCH)
  requireCurrent(rows[0])
  return rows[0]?.watches === true
}

/**
 * A server that became a standby, or read-only for the time of a switch, keeps the locks that it has, where the watcher of its successor
 * does not look. A new connection may lead there.
 */
function requireCurrent(row: { readonly is_stale: boolean } | undefined): void {
  if (row?.is_stale) throw new Error('the server of the lock is read-only')
}

/** The machine answers, and the server on it does not serve: nobody else can act on a lock that is missing. */
function isAwayForAll(error: unknown): boolean {
  const refused = error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED'
  return refused || /^57P0[123]/.test(sqlstateOf(error) ?? '')
}
