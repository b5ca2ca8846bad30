import { ServiceError } from '@bureau/protocol'
import { CommitUnknownError, DatabaseError } from './database.ts'

/** The database is out of order or out of reach; nobody asked for something wrong. */
const UNAVAILABLE = /^(08|53|57|58)|^(25006|25P03|40001|40P01|55P03)$/

/** Drizzle wraps the driver's error and puts the parameters into its message: look through it, never show it. */
export function driverError(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined && 'query' in error ? error.cause : error
}

/** The five characters with which the server refused a statement; undefined for every other error. */
export function sqlstateOf(error: unknown): string | undefined {
  if (error instanceof DatabaseError) return error.sqlstate
  const inner = driverError(error)
  if (!(inner instanceof Error) || !('code' in inner) || !('severity' in inner)) return undefined
  return typeof inner.code === 'string' ? inner.code : undefined
}

/** True when the connection broke, so that no ROLLBACK can be sent and COMMIT may have gone unanswered. */
export function isConnectionLost(error: unknown): boolean {
  const sqlstate = sqlstateOf(error)
  return sqlstate === undefined ? isSocketError(driverError(error)) : /^(08|57P0)/.test(sqlstate)
}

const SOCKET_ERRORS = new Set(
  'ECONNABORTED ECONNREFUSED ECONNRESET EPIPE ETIMEDOUT EHOSTUNREACH ENETUNREACH ENOTFOUND EAI_AGAIN'.split(' '),
)

function isSocketError(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if ('code' in error && SOCKET_ERRORS.has(String(error.code))) return true
  return /^(Connection terminated|Query read timeout|timeout expired|timeout exceeded|Client has encountered)/.test(
    error.message,
  )
}

/** What `Database.run` throws instead of a driver's error. Refusals and defects of our own pass unchanged. */
export function toDatabaseError(error: unknown): unknown {
  const inner = driverError(error)
  const sqlstate = sqlstateOf(error)
  if (sqlstate === undefined) return isSocketError(inner) ? unavailable((inner as Error).message) : inner
  const { message, constraint } = inner as Error & { readonly constraint?: string }
  if (UNAVAILABLE.test(sqlstate)) return unavailable(`${sqlstate} ${message}`)
  return new DatabaseError(sqlstate, message, constraint)
}

/** Whether the database was away or its answer was lost, rather than refusing what it was asked for. */
export function isPassing(error: unknown): boolean {
  return error instanceof ServiceError || error instanceof CommitUnknownError
}

export function unavailable(detail: string): ServiceError {
  return new ServiceError('database_unavailable', { detail, headers: { 'Retry-After': '2' } })
}
