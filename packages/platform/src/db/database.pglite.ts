import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { extname, join } from 'node:path'
import v8 from 'node:v8'
import { Worker } from 'node:worker_threads'
import { makeFolder } from '@bureau/framework'
import { ConfigError, ServiceError, StartError } from '@bureau/protocol'
import { folderError } from '../start-error.ts'
import { unavailable } from './database-error.ts'
import { CommitUnknownError, type Database, type RunOptions } from './database.ts'
import { checkFolderFormat, recordsFolder, writeFolderFormat } from './folder-format.ts'
import { lockFolder } from './lock-folder.ts'
import type { Operation } from './operation.ts'
import { type FromWorker, type Job, receiveError, type ToWorker, type WorkerSetup } from './worker-messages.ts'

type PgliteOptions = {
  /** The data folder. Absent: in memory, gone with the process. */
  readonly folder?: string
  /** A file written by `backup`; the folder must not hold a database yet. */
  readonly restoreFrom?: string
}

/** More outstanding operations than this are refused with `overloaded`; those of running runs never are. */
const QUEUE_LIMIT = 500

/** By default V8 lets the short-lived objects of a thread grow to 100 MB before it looks which are still needed. */
const YOUNG_GENERATION_MB = 8

type Pending = {
  readonly settle: (message: Extract<FromWorker, { id: number }>) => void
  readonly reject: (error: Error) => void
}

/** The embedded database: PostgreSQL in a worker thread of this process, in a folder that it has for itself. */
export class PgliteDatabase implements Database {
  readonly engine = 'pglite'
  readonly failed: Promise<Error>
  readonly #worker: Worker
  readonly #unlock: () => void
  readonly #pending = new Map<number, Pending>()
  #lastId = 0
  #refusable = 0
  #stopped: Error | undefined
  #closing = false

  private constructor(worker: Worker, unlock: () => void) {
    this.#worker = worker
    this.#unlock = unlock
    this.failed = new Promise((resolve) => {
      const stop = (error: Error): void => {
        this.#stop(error)
        if (!this.#closing) resolve(error)
      }
      worker.once('error', stop)
      worker.once('exit', (code) => stop(new Error(`the thread of the embedded database ended with code ${code}`)))
    })
    worker.on('message', (message: FromWorker) => {
      if ('id' in message) this.#pending.get(message.id)?.settle(message)
    })
  }

  /** @throws ConfigError the folder was made by another version, or already holds a database to restore over.
   *  @throws StartError the folder is in use or may not be written to, or its files are damaged. */
  static async open(options: PgliteOptions): Promise<PgliteDatabase> {
    let unlock = (): void => {}
    try {
      if (options.folder !== undefined) unlock = prepareFolder(options.folder, options.restoreFrom)
      const setup: WorkerSetup = {
        ...(options.folder !== undefined && { recordsFolder: recordsFolder(options.folder) }),
        ...(options.restoreFrom !== undefined && { restoreFrom: options.restoreFrom }),
      }
      return new PgliteDatabase(await startWorker(setup), unlock)
    } catch (error) {
      unlock()
      throw folderError(error, options.folder) ?? damaged(error, options)
    }
  }

  run<Args, Result>(operation: Operation<Args, Result>, args: Args, options: RunOptions = {}): Promise<Result> {
    const { source, name, lane } = operation
    return this.#ask({ type: 'run', id: ++this.#lastId, lane, source, name, args }, options.signal) as Promise<Result>
  }

  /** Writes a copy of the whole database, as of one moment between two operations, to `file`. */
  async backup(file: string): Promise<void> {
    await this.#ask({ type: 'backup', id: ++this.#lastId, file, lane: 'maintenance' })
  }

  /** Makes the room of the dead rows of a table usable again; `table` is a name that the database gave out. */
  async vacuum(table: string): Promise<void> {
    await this.#ask({ type: 'vacuum', id: ++this.#lastId, table, lane: 'maintenance' })
  }

  #ask(message: Job, signal?: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      if (this.#stopped) throw unavailable(this.#stopped.message)
      const { id, lane } = message
      if (lane !== 'run' && this.#refusable >= QUEUE_LIMIT) {
        throw new ServiceError('overloaded', { headers: { 'Retry-After': '1' } })
      }
      const abort = (): void => this.#worker.postMessage({ type: 'abort', id } satisfies ToWorker)
      const done = (): void => {
        this.#pending.delete(id)
        if (lane !== 'run') this.#refusable--
        signal?.removeEventListener('abort', abort)
      }
      this.#worker.postMessage(message) // throws when the arguments are not plain data
      signal?.addEventListener('abort', abort, { once: true })
      if (lane !== 'run') this.#refusable++
      this.#pending.set(id, {
        settle: (answer) => {
          done()
          if (answer.type === 'result') resolve(answer.result)
          else reject(receiveError(answer.error, signal?.reason))
        },
        reject: (error) => (done(), reject(error)),
      })
    })
  }

  #stop(cause: Error): void {
    this.#stopped ??= cause
    for (const pending of this.#pending.values()) {
      pending.reject(new CommitUnknownError('the embedded database stopped', { cause }))
    }
  }

  async close(): Promise<void> {
    if (!this.#stopped) {
      this.#closing = true
      const exit = once(this.#worker, 'exit')
      this.#worker.postMessage({ type: 'close' } satisfies ToWorker)
      await exit
    }
    this.#unlock()
  }
}

function prepareFolder(folder: string, restoreFrom: string | undefined): () => void {
  makeFolder(folder)
  checkFolderFormat(folder)
  const unlock = lockFolder(folder)
  try {
    if (restoreFrom !== undefined && existsSync(recordsFolder(folder))) {
      throw new ConfigError(`${folder} already holds a database. Restore into a new folder.`)
    }
    writeFolderFormat(folder)
    return unlock
  } catch (error) {
    unlock()
    throw error
  }
}

/** The engine says little of what it found. It leaves a new folder empty when it fails, so its own files are the cause. */
function damaged(error: unknown, { folder, restoreFrom }: PgliteOptions): unknown {
  if (error instanceof ConfigError || error instanceof StartError || folder === undefined) return error
  const cause = { cause: error }
  if (restoreFrom !== undefined) return new StartError(`${restoreFrom} is not a copy that can be restored.`, cause)
  return new StartError(
    `The database in ${recordsFolder(folder)} cannot be opened: its files are damaged. Restore a copy, such as one of ` +
      `${join(folder, 'backups')}, into a new data folder with "bureau restore".`,
    cause,
  )
}

async function startWorker(setup: WorkerSetup): Promise<Worker> {
  // When several threads run WebAssembly, V8 now and then frees machine code that one of them still uses, which ends the
  // process (nodejs/node#64500). What is never freed is a few megabytes.
  v8.setFlagsFromString('--no-wasm-code-gc')
  const worker = new Worker(new URL(`./pglite-thread${extname(import.meta.url)}`, import.meta.url), {
    workerData: setup,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB },
  })
  try {
    await once(worker, 'message') // the first message is always `ready`
    return worker
  } catch (error) {
    // Classes do not survive the way between threads.
    if (error instanceof Error && error.name === 'ConfigError') throw new ConfigError(error.message)
    throw error
  }
}
