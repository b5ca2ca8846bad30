import { isConnectionLost } from './database-error.ts'
import { type Operation, RollbackWith, type Tx } from './operation.ts'

/** One database connection. */
export type Session = {
  readonly tx: Tx
  /** Begins a transaction: at the latest when its first query is sent. */
  readonly begin: (opening: Opening) => void | Promise<void>
  /** Sends statements without parameters. Answers the command tag of the last, e.g. `COMMIT`. */
  readonly exec: (statements: string) => Promise<string>
}

/** What opens a transaction: the statement that begins it, and its settings, which decide what it may see. */
export type Opening = { readonly begin: string; readonly settings: Readonly<Record<string, string>> }

/** Columns are camelCase in the schema file and snake_case in SQL. */
export const DRIZZLE = { casing: 'snake_case' } as const

/** An operation whose work is done. `open`: COMMIT is still to be sent; otherwise it was rolled back on purpose. */
type Prepared<Result> = { readonly result: Result; readonly open: boolean }

/**
 * Settings of every transaction. Requests never wait longer than this for a lock or a statement; a stopped process frees
 * its locks after ten seconds.
 */
export const SETTINGS: Readonly<Record<string, string>> = {
  lock_timeout: '3s',
  statement_timeout: '5s',
  idle_in_transaction_session_timeout: '10s',
  TimeZone: 'UTC',
  max_parallel_workers_per_gather: '0', // starting a worker, too
  jit: 'off', // compiling takes longer than any query of ours
}

/**
 * Everything of a transaction but its COMMIT. Throws with the transaction rolled back, unless the connection is lost.
 *
 * @param stillWanted - Throws when the caller does not want the operation any more. Asked before BEGIN and after the work.
 */
export async function prepare<Args, Result>(
  session: Session,
  operation: Operation<Args, Result>,
  args: Args,
  stillWanted: () => void,
): Promise<Prepared<Result>> {
  stillWanted()
  const opening = openingOf(operation, args)
  try {
    await session.begin(opening)
    const result = await operation.work(session.tx, args)
    stillWanted()
    return { result, open: true }
  } catch (error) {
    if (!isConnectionLost(error)) await session.exec('ROLLBACK')
    if (error instanceof RollbackWith) return { result: error.value as Result, open: false }
    throw error
  }
}

/** Sends COMMIT. @throws Error the server rolled back instead: the operation had swallowed the error of a statement. */
export async function commit(session: Pick<Session, 'exec'>): Promise<void> {
  const tag = await session.exec('COMMIT')
  if (tag !== 'COMMIT') throw new Error(`COMMIT was answered with ${tag}: a statement of the operation had failed`)
}

/** Whether a connection whose last `exec` answered this may be used by somebody else. */
export const isTransactionOver = (tag: string): boolean => tag === 'COMMIT' || tag === 'ROLLBACK'

function openingOf<Args>(operation: Operation<Args, unknown>, args: Args): Opening {
  const settings =
    operation.access === 'tenant'
      ? { 'app.owner_id': ownerOf(args), role: 'platform_tenant' }
      : { 'app.access': 'system' }
  return { begin: `BEGIN${operation.onlyReads ? ' READ ONLY' : ''}`, settings }
}

/** The statements that make settings for one transaction. */
export const setLocal = (settings: Readonly<Record<string, string>>): string =>
  Object.entries(settings)
    .map(([name, value]) => `SET LOCAL ${name} = '${value}'`)
    .join('; ')

/** The owner becomes part of a statement, so its form is checked. */
function ownerOf(args: unknown): string {
  const ownerId = (args as { readonly ownerId: unknown }).ownerId
  if (typeof ownerId !== 'string' || !/^own_[0-9a-z]{26}$/.test(ownerId)) throw new TypeError('not an owner id')
  return ownerId
}
