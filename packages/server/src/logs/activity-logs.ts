import { randomUUID } from 'node:crypto'
import { constants, type PathLike } from 'node:fs'
import { lstat, mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import path from 'node:path'

const FLUSH_MS = 100
const MAX_PENDING_BYTES = 8_388_608
const MAX_FILE_BYTES = 10_485_760
const MAX_OPEN_FILES = 8

/** What a log may be called; everything else could leave the directory. */
export const LOG_ID = /^[A-Za-z0-9_-]{1,128}$/

/**
 * Files of log lines, one for each id that callers have chosen: `<directory>/<id>.jsonl`.
 *
 * Lines wait in memory (at most 8 MiB for all ids) and are written every 100 ms, at most eight files at a time; no file
 * stays open. A file takes 10 MiB. Lines above either limit are dropped.
 */
export class ActivityLogs {
  readonly #directory: string
  readonly #onError: (error: unknown) => void
  #pending = new Map<string, string[]>()
  #pendingBytes = 0
  #timer: NodeJS.Timeout | undefined
  /** File operations follow each other, so that a log is never read between two halves of a write. */
  #last: Promise<unknown> = Promise.resolve()

  /** Makes the directory. `onError` is told of lines that could not be written. */
  static async open(directory: string, onError: (error: unknown) => void): Promise<ActivityLogs> {
    await mkdir(directory, { recursive: true, mode: 0o700 })
    return new ActivityLogs(directory, onError)
  }

  private constructor(directory: string, onError: (error: unknown) => void) {
    this.#directory = directory
    this.#onError = onError
  }

  /** Never waits. `id` must match LOG_ID; `line` must be JSON text. */
  append(id: string, line: string): void {
    if (this.#pendingBytes + line.length > MAX_PENDING_BYTES) return
    const lines = this.#pending.get(id) ?? []
    this.#pending.set(id, lines)
    lines.push(line)
    this.#pendingBytes += line.length
    this.#timer ??= setTimeout(() => void this.#flush(), FLUSH_MS).unref()
  }

  /**
   * The records of a log, which is deleted by this: of two readers one gets it. Undefined: there is no such log.
   *
   * @throws the log cannot be read.
   */
  async take(id: string): Promise<unknown[] | undefined> {
    if (!LOG_ID.test(id)) return undefined
    void this.#flush()
    return this.#next(() => takeFile(this.#fileOf(id)))
  }

  /** Writes what is pending. */
  async close(): Promise<void> {
    await this.#flush()
  }

  #fileOf(id: string): string {
    return path.join(this.#directory, `${id}.jsonl`)
  }

  #flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const batch = [...this.#pending]
    this.#pending = new Map()
    this.#pendingBytes = 0
    return this.#next(async () => {
      for (let at = 0; at < batch.length; at += MAX_OPEN_FILES) {
        const writes = batch.slice(at, at + MAX_OPEN_FILES).map(([id, lines]) => appendLines(this.#fileOf(id), lines))
        for (const result of await Promise.allSettled(writes)) {
          if (result.status === 'rejected') this.#onError(result.reason)
        }
      }
    })
  }

  #next<Result>(operation: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(operation)
    this.#last = result.catch(() => {})
    return result
  }
}

/** Through no link: whoever can plant one in the directory must not choose the file that is written. */
async function appendLines(file: PathLike, lines: readonly string[]): Promise<void> {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = constants
  await using handle = await open(file, O_APPEND | O_CREAT | O_NOFOLLOW | O_WRONLY, 0o600)
  let { size } = await handle.stat()
  let text = ''
  for (const line of lines) {
    size += Buffer.byteLength(line) + 1
    if (size > MAX_FILE_BYTES) break
    text += `${line}\n`
  }
  if (text !== '') await handle.writeFile(text)
}

/** The file is renamed before it is read, so that processes that share the directory do not read it twice. */
async function takeFile(file: string): Promise<unknown[] | undefined> {
  const claimed = `${file}.${randomUUID()}`
  try {
    if (!(await lstat(file)).isFile()) throw new Error('a log that is not a regular file')
    await rename(file, claimed)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const text = await readFile(claimed, 'utf8')
    return text.split('\n').flatMap(parseLine)
  } finally {
    await rm(claimed, { force: true })
  }
}

/** A line that a dying process has cut off is left out. */
function parseLine(line: string): unknown[] {
  try {
    return [JSON.parse(line)]
  } catch {
    return []
  }
}
