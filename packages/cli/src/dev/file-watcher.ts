import { existsSync, type FSWatcher, watch } from 'node:fs'
import path from 'node:path'

/** Editors write a file in several steps, and tools save many files at once. */
const SETTLE_MS = 100

/**
 * Watches files by their folders. A file that is replaced, as many editors and git do, is another file to the system, and a
 * watcher of the old one would see nothing more.
 */
export class FileWatcher {
  readonly #files = new Set<string>()
  readonly #folders = new Map<string, FSWatcher>()
  readonly #onChange: (file: string) => void
  #timer: NodeJS.Timeout | undefined

  constructor(onChange: (file: string) => void) {
    this.#onChange = onChange
  }

  /** @param file - An absolute path; the file need not exist. */
  add(file: string): void {
    this.#files.add(file)
    this.#watchFolder(path.dirname(file))
  }

  /** Looks for the folders anew: to the system, one that was replaced is another folder as well. */
  refresh(): void {
    clearTimeout(this.#timer)
    for (const watcher of this.#folders.values()) watcher.close()
    this.#folders.clear()
    for (const file of this.#files) this.#watchFolder(path.dirname(file))
  }

  /** Of a folder that is not there, the one above it: it will say when it is made. */
  #watchFolder(folder: string): void {
    if (!existsSync(folder)) return this.#watchFolder(path.dirname(folder))
    if (this.#folders.has(folder)) return
    const watcher = watch(folder, (_event, name) => this.#notice(folder, name))
    watcher.on('error', () => {}) // The folder is gone; `refresh` finds its successor.
    this.#folders.set(folder, watcher)
  }

  #notice(folder: string, name: string | null): void {
    const changed = path.join(folder, name ?? '')
    const isWatched = this.#files.has(changed) || [...this.#files].some((file) => file.startsWith(changed + path.sep))
    if (!isWatched) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#onChange(changed), SETTLE_MS)
  }
}
