import { ServiceError, type ErrorCode, type ServiceErrorOptions } from '@bureau/protocol'
import { toDatabaseError } from './database-error.ts'
import { DatabaseError } from './database.ts'
import type { Lane } from './operation.ts'

/** What the worker of the embedded database is started with. */
export type WorkerSetup = {
  /** Absent: in memory. */
  readonly recordsFolder?: string
  /** A file that `backup` wrote; only for a new database. */
  readonly restoreFrom?: string
}

/** Work with an answer: a `result` or an `error` with the same id. */
export type Job =
  | RunMessage
  | (JobOf<'backup'> & { readonly file: string })
  /** `table` is as `regclass` writes it. */
  | (JobOf<'vacuum'> & { readonly table: string })
type JobOf<Type> = { readonly type: Type; readonly id: number; readonly lane: Lane }

export type ToWorker = Job | { readonly type: 'abort'; readonly id: number } | { readonly type: 'close' }

export type RunMessage = JobOf<'run'> & {
  /** The module and the name of the operation's export. */
  readonly source: string
  readonly name: string
  readonly args: unknown
}

export type FromWorker =
  | { readonly type: 'ready' }
  | { readonly type: 'closed' }
  | { readonly type: 'result'; readonly id: number; readonly result: unknown }
  | { readonly type: 'error'; readonly id: number; readonly error: SentError }

/** Classes do not cross threads: an error travels as data and is rebuilt. */
type SentError =
  | { readonly kind: 'service'; readonly code: ErrorCode; readonly options: ServiceErrorOptions }
  | { readonly kind: 'database'; readonly sqlstate: string; readonly message: string; readonly constraint?: string }
  | { readonly kind: 'aborted' }
  | { readonly kind: 'defect'; readonly name: string; readonly message: string; readonly stack?: string }

export function sendError(thrown: unknown): SentError {
  const error = toDatabaseError(thrown)
  if (error instanceof ServiceError) {
    const { message, fields, headers, detail } = error
    return {
      kind: 'service',
      code: error.code,
      options: { message, headers, ...(fields && { fields }), ...(detail && { detail }) },
    }
  }
  if (error instanceof DatabaseError) {
    const { sqlstate, message, constraint } = error
    return { kind: 'database', sqlstate, message, ...(constraint !== undefined && { constraint }) }
  }
  if (error instanceof AbortedError) return { kind: 'aborted' }
  if (!(error instanceof Error)) return { kind: 'defect', name: 'Error', message: String(error) }
  return { kind: 'defect', name: error.name, message: error.message, ...(error.stack && { stack: error.stack }) }
}

/** `reason` is what the caller's signal gave, for an operation that was aborted. */
export function receiveError(sent: SentError, reason?: unknown): Error {
  if (sent.kind === 'service') return new ServiceError(sent.code, sent.options)
  if (sent.kind === 'database') return new DatabaseError(sent.sqlstate, sent.message, sent.constraint)
  if (sent.kind === 'aborted') return reason instanceof Error ? reason : new AbortedError(String(reason))
  const error = new Error(sent.message)
  error.name = sent.name
  if (sent.stack) error.stack = sent.stack
  return error
}

/** Inside the worker: the caller does not want the operation any more. */
export class AbortedError extends Error {
  override readonly name = 'AbortedError'
}
