import type { Operation } from './operation.ts'

export type RunOptions = {
  /** Checked when the operation starts and right before COMMIT: aborted there, it leaves nothing behind. */
  readonly signal?: AbortSignal
}

/** The records of the platform: the embedded database or PostgreSQL, with the same SQL and the same promises. */
export interface Database {
  readonly engine: 'pglite' | 'postgres'

  /**
   * Executes one operation as one transaction, READ COMMITTED.
   *
   * @throws ServiceError what the operation refuses with, and `overloaded` or `database_unavailable`; all of these mean
   *   that nothing was written.
   * @throws CommitUnknownError the only case in which something may have been written.
   * @throws DatabaseError the database refused a statement: a defect of ours.
   * @throws The reason of `signal`, when it aborted before COMMIT.
   */
  run<Args, Result>(operation: Operation<Args, Result>, args: Args, options?: RunOptions): Promise<Result>

  /** Resolves, with the cause, when the database stopped by itself. The process should then end. */
  readonly failed: Promise<Error>

  /** Waits for the operations in progress, then closes. */
  close(): Promise<void>
}

/**
 * COMMIT was sent and its answer was lost: the transaction may or may not have taken place.
 *
 * Thrown after two seconds of asking the server for the outcome, and when the server has crashed since.
 */
export class CommitUnknownError extends Error {
  override readonly name = 'CommitUnknownError'
  /**
   * What the operation has come to, when the server has crashed since: what it wrote can be looked for, because it is there now
   * or never will be. Undefined: it may still come.
   */
  readonly result: unknown

  constructor(message: string, { result, ...options }: ErrorOptions & { readonly result?: unknown } = {}) {
    super(message, options)
    this.result = result
  }
}

/** A statement that the database refused. Carries no values: they may be secrets. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError'
  readonly sqlstate: string
  readonly constraint: string | undefined

  constructor(sqlstate: string, message: string, constraint?: string) {
    super(message)
    this.sqlstate = sqlstate
    this.constraint = constraint
  }
}
