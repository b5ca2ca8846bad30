import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, open, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { makeFolder } from '@bureau/framework'

const FLUSH_MS = 100
const MAX_PENDING_BYTES = 8_388_608
const MAX_OPEN_FILES = 8

export type ActivityLogLimits = {
  /** Logs that are kept. */
  readonly maxLogs: number
  /** Largest log, in bytes, and so about half of the largest answer. */
  readonly maxLogBytes: number
  /** All logs together, in bytes. */
  readonly maxTotalBytes: number
}

const LIMITS: ActivityLogLimits = { maxLogs: 1_000, maxLogBytes: 2_097_152, maxTotalBytes: 268_435_456 }

/** What a log may be called; everything else could leave the directory. */
export const LOG_ID = /^[A-Za-z0-9_-]{1,128}$/

/**
 * Files of log lines, one for each id that callers have chosen: `<directory>/<id>.jsonl`.
 *
 * Lines wait in memory (at most 8 MiB and `maxLogs` ids) and are written every 100 ms, at most eight files at a time; no file
 * stays open. Lines above a limit are dropped. When there are too many logs or bytes, those that were written to longest ago
 * are deleted, because anybody may begin a log and nobody has to read it. Each process counts what it has found at its start
 * and written since.
 */
export class ActivityLogs {
  readonly #directory: string
  readonly #limits: ActivityLogLimits
  readonly #onError: (error: unknown) => void
  /** The bytes of each file, by its name; the one that was written to longest ago comes first. */
  readonly #files: Map<string, number>
  #totalBytes: number
  #pending = new Map<string, string[]>()
  #pendingBytes = 0
  #timer: NodeJS.Timeout | undefined
  /** File operations follow each other, so that a log is never read between two halves of a write. */
  #last: Promise<unknown> = Promise.resolve()

  /** Makes the directory. `onError` is given what kept lines from being written, or old logs from being deleted. */
  static async open(
    directory: string,
    onError: (error: unknown) => void,
    limits: ActivityLogLimits = LIMITS,
  ): Promise<ActivityLogs> {
    makeFolder(directory)
    return new ActivityLogs({ directory, onError, limits, files: await filesIn(directory) })
  }

  private constructor(opened: {
    readonly directory: string
    readonly onError: (error: unknown) => void
    readonly limits: ActivityLogLimits
    readonly files: Map<string, number>
  }) {
    this.#directory = opened.directory
    this.#onError = opened.onError
    this.#limits = opened.limits
    this.#files = opened.files
    this.#totalBytes = [...opened.files.values()].reduce((sum, bytes) => sum + bytes, 0)
  }

  /** Never waits. `id` must match LOG_ID; `line` must be JSON text. */
  append(id: string, line: string): void {
    const lines = this.#pending.get(id) ?? []
    const isFull = lines.length === 0 && this.#pending.size >= this.#limits.maxLogs
    if (isFull || this.#pendingBytes + line.length > MAX_PENDING_BYTES) return
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
    return this.#next(async () => {
      const records = await takeFile(this.#pathOf(nameOf(id)), this.#limits.maxLogBytes)
      this.#setBytes(nameOf(id), undefined)
      return records
    })
  }

  /** Writes what is pending. */
  async close(): Promise<void> {
    await this.#flush()
  }

  #pathOf(name: string): string {
    return path.join(this.#directory, name)
  }

  #flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const batch = [...this.#pending]
    this.#pending = new Map()
    this.#pendingBytes = 0
    return this.#next(async () => {
      for (let at = 0; at < batch.length; at += MAX_OPEN_FILES) {
        const writes = batch.slice(at, at + MAX_OPEN_FILES).map(([id, lines]) => this.#write(nameOf(id), lines))
        for (const result of await Promise.allSettled(writes)) {
          if (result.status === 'rejected') this.#onError(result.reason)
        }
      }
      await this.#deleteOldest().catch(this.#onError)
    })
  }

  async #write(name: string, lines: readonly string[]): Promise<void> {
    this.#setBytes(name, await appendLines(this.#pathOf(name), lines, this.#limits.maxLogBytes))
  }

  async #deleteOldest(): Promise<void> {
    const { maxLogs, maxTotalBytes } = this.#limits
    for (const name of this.#files.keys()) {
      if (this.#files.size <= maxLogs && this.#totalBytes <= maxTotalBytes) return
      await rm(this.#pathOf(name), { force: true })
      this.#setBytes(name, undefined)
    }
  }

  /** @param bytes - Undefined: the file is gone. */
  #setBytes(name: string, bytes: number | undefined): void {
    this.#totalBytes += (bytes ?? 0) - (this.#files.get(name) ?? 0)
    this.#files.delete(name)
    if (bytes !== undefined) this.#files.set(name, bytes)
  }

  #next<Result>(operation: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(operation)
    this.#last = result.catch(() => {})
    return result
  }
}

function nameOf(id: string): string {
  return `${id}.jsonl`
}

/** Logs of before, and those that a process was reading when it died; the oldest comes first. */
async function filesIn(directory: string): Promise<Map<string, number>> {
  const names = (await readdir(directory)).filter((name) => /^[\w-]{1,128}\.jsonl(?:\.[0-9a-f-]{36})?$/.test(name))
  const found: { name: string; size: number; mtimeMs: number }[] = []
  for (let at = 0; at < names.length; at += MAX_OPEN_FILES) {
    const stats = names.slice(at, at + MAX_OPEN_FILES).map(async (name) => {
      // Another process may delete it meanwhile.
      const stat = await lstat(path.join(directory, name)).catch(() => undefined)
      if (stat?.isFile()) found.push({ name, size: stat.size, mtimeMs: stat.mtimeMs })
    })
    await Promise.all(stats)
  }
  return new Map(found.toSorted((a, b) => a.mtimeMs - b.mtimeMs).map(({ name, size }) => [name, size]))
}

/**
 * Through no link: whoever can plant one in the directory must not choose the file that is written.
 *
 * @returns The bytes of the file.
 */
async function appendLines(file: string, lines: readonly string[], maxBytes: number): Promise<number> {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = constants
  await using handle = await open(file, O_APPEND | O_CREAT | O_NOFOLLOW | O_WRONLY, 0o600)
  let { size } = await handle.stat()
  let text = ''
  for (const line of lines) {
    const bytes = Buffer.byteLength(line) + 1
    if (size + bytes > maxBytes) break
    size += bytes
    text += `${line}\n`
  }
  if (text !== '') await handle.writeFile(text)
  return size
}

/** The file is renamed before it is read, so that processes that share the directory do not read it twice. */
async function takeFile(file: string, maxBytes: number): Promise<unknown[] | undefined> {
  const claimed = `${file}.${randomUUID()}`
  try {
    if (!(await lstat(file)).isFile()) throw new Error('a log that is not a regular file')
    await rename(file, claimed)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const text = await readText(claimed, maxBytes)
    return text.split('\n').flatMap(parseLine)
  } finally {
    await rm(claimed, { force: true })
  }
}

/** The beginning of a file: somebody else may have written more than this process would have. */
async function readText(file: string, maxBytes: number): Promise<string> {
  await using handle = await open(file)
  const { size } = await handle.stat()
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(Math.min(size, maxBytes)))
  return buffer.toString('utf8', 0, bytesRead)
}

/** A line that a dying process has cut off is left out. */
function parseLine(line: string): unknown[] {
  try {
    return [JSON.parse(line)]
  } catch {
    return []
  }
}
