import { randomUUID } from 'node:crypto'
import { link, open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolder } from '@bureau/framework'
import { claimDigest, type Claims } from './claims.ts'

/** Expired files are looked for after so many claims. */
const CLAIMS_PER_SWEEP = 1_000
/** A file that expired more recently than this is kept: it may be under construction, with no expiry of its own yet. */
const MAKING_MS = 60_000

/**
 * Embedded: one empty file for each claim, whose modification time is when it expires. Processes that share the folder share the
 * claims, because of two who make a link of one name only one succeeds.
 */
export class FileClaims implements Claims {
  readonly #directory: string
  readonly #now: () => number
  #sinceSweep = CLAIMS_PER_SWEEP

  /** @param options - `directory` is made with mode 0700 when it is missing. */
  constructor(options: { readonly directory: string; readonly now?: () => number }) {
    this.#directory = options.directory
    this.#now = options.now ?? Date.now
  }

  async claim(id: string, until: number): Promise<boolean> {
    makeFolder(this.#directory)
    if (++this.#sinceSweep > CLAIMS_PER_SWEEP) await this.#sweep()
    const temporary = join(this.#directory, randomUUID())
    try {
      await writeExpiry(temporary, until)
      await link(temporary, this.#pathOf(id))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
      throw error
    } finally {
      await rm(temporary, { force: true })
    }
  }

  async release(id: string): Promise<void> {
    await rm(this.#pathOf(id), { force: true })
  }

  async #sweep(): Promise<void> {
    this.#sinceSweep = 0
    for (const name of await readdir(this.#directory)) {
      const path = join(this.#directory, name)
      const file = await stat(path).catch(() => undefined)
      if (file && file.mtimeMs < this.#now() - MAKING_MS) await rm(path, { force: true })
    }
  }

  #pathOf(id: string): string {
    return join(this.#directory, claimDigest(id))
  }
}

/** The file has its expiry before it is a claim: a process that is killed in between has claimed nothing. */
async function writeExpiry(path: string, until: number): Promise<void> {
  const file = await open(path, 'wx', 0o600)
  try {
    await file.utimes(until / 1_000, until / 1_000)
    await file.sync()
  } finally {
    await file.close()
  }
}
