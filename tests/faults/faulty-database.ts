import type { Database, Operation, RunOptions } from '@bureau/platform/testing'
import { sql } from 'drizzle-orm'
import { type Fault, MARK } from './fault.ts'

/** A database that reports its operations and, at the armed moment, ends or stops the process that uses it. */
export class FaultyDatabase implements Database {
  readonly engine: Database['engine']
  readonly failed: Promise<Error>
  readonly #db: Database
  readonly #report: (operation: string) => void
  #fault: Fault | null
  #left: number

  constructor(db: Database, fault: Fault | null, report: (operation: string) => void) {
    this.#db = db
    this.engine = db.engine
    this.failed = db.failed
    this.#report = report
    this.#fault = fault
    this.#left = fault?.nth ?? 0
  }

  arm(fault: Fault | null): void {
    this.#fault = fault
    this.#left = fault?.nth ?? 0
  }

  async run<Args, Result>(operation: Operation<Args, Result>, args: Args, options?: RunOptions): Promise<Result> {
    this.#report(operation.name)
    this.pass('before', operation.name)
    const result = await this.#db.run(this.#withFaultInside(operation), args, options)
    this.pass('after', operation.name)
    return result
  }

  close(): Promise<void> {
    return this.#db.close()
  }

  #isMeant(point: Fault['point'], operation: string): boolean {
    return this.#fault?.point === point && ['*', operation].includes(this.#fault.operation)
  }

  /** The fault strikes here, if this is its moment. */
  pass(point: Fault['point'], operation: string): void {
    if (this.#isMeant(point, operation) && --this.#left === 0) strike(this.#fault?.action)
  }

  #withFaultInside<Args, Result>(operation: Operation<Args, Result>): Operation<Args, Result> {
    if (!this.#isMeant('inside', operation.name)) return operation
    if (this.engine === 'pglite') return insideWorker(operation, this.#left)
    return {
      ...operation,
      work: async (tx, args) => {
        const result = await operation.work(tx, args)
        const fault = this.#fault
        if (!this.#isMeant('inside', operation.name) || --this.#left !== 0) return result
        if (fault?.action === 'mark') await tx.execute(sql.raw(`SELECT '${MARK}'`))
        else strike(fault?.action)
        return result
      },
    }
  }
}

function strike(action: Fault['action'] | undefined): void {
  process.kill(process.pid, action === 'stop' ? 'SIGSTOP' : 'SIGKILL')
}

/** The embedded database imports the operation in its own thread: there it gets one that counts and kills. */
function insideWorker<Args, Result>(operation: Operation<Args, Result>, nth: number): Operation<Args, Result> {
  const module = new URL('./killed-inside.ts', import.meta.url)
  module.search = new URLSearchParams({ source: operation.source, name: operation.name, nth: String(nth) }).toString()
  return { ...operation, source: module.href, name: 'killedInside' }
}
