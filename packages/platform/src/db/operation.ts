import type { NodePgQueryResultHKT } from 'drizzle-orm/node-postgres'
import type { PgDatabase } from 'drizzle-orm/pg-core'

/** The queries of one open transaction. Both drivers behave alike behind it. */
export type Tx = PgDatabase<NodePgQueryResultHKT>

/**
 * Who goes first when the database is busy. `run`: heartbeats and the writes of running runs. `maintenance` starts only
 * when nothing else waits.
 */
export type Lane = 'run' | 'admission' | 'interactive' | 'maintenance'

export const LANES: readonly Lane[] = ['run', 'admission', 'interactive', 'maintenance']

/**
 * One transaction, as a named function.
 *
 * `Database.run` executes `work` between BEGIN and COMMIT: on PostgreSQL in this process, on the embedded database in
 * its worker thread, which imports `source` and calls the export called `name`. Hence an operation is exported under
 * its own name, its arguments and result are plain data (structured clone), and `work` awaits nothing but `tx`.
 */
export type Operation<Args, Result> = {
  readonly source: string
  readonly name: string
  readonly lane: Lane
  /** `tenant` sees the rows of `args.ownerId` only (row level security); `system` sees every owner. */
  readonly access: 'tenant' | 'system'
  /**
   * True: the database refuses its writes. Such a transaction gets no number, leaves nothing in the write-ahead log, and is
   * answered before its COMMIT is.
   */
  readonly onlyReads?: boolean
  readonly work: (tx: Tx, args: Args) => Promise<Result>
}

type Declaration = Pick<Operation<never, never>, 'source' | 'name' | 'lane' | 'onlyReads'>

/** An operation of one owner. `source` is always `import.meta.url`. */
export function tenantOperation<Args extends { readonly ownerId: string }, Result>(
  declaration: Declaration,
  work: (tx: Tx, args: Args) => Promise<Result>,
): Operation<Args, Result> {
  return { ...declaration, access: 'tenant', work }
}

/** An operation of the platform itself, across owners: recovery, sweeps, start-up. Never for a caller's request. */
export function systemOperation<Args, Result>(
  declaration: Declaration,
  work: (tx: Tx, args: Args) => Promise<Result>,
): Operation<Args, Result> {
  return { ...declaration, access: 'system', work }
}

/**
 * Thrown inside an operation to undo everything it wrote and still answer with `value`.
 *
 * For a decision that is found after the first write, such as a replay that meanwhile became known.
 */
export class RollbackWith<Result> extends Error {
  override readonly name = 'RollbackWith'
  readonly value: Result

  constructor(value: Result) {
    super('the transaction was rolled back on purpose')
    this.value = value
  }
}
