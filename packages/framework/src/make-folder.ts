import { mkdirSync, statSync } from 'node:fs'
import path from 'node:path'

/**
 * Makes a folder with mode 0700, and all that is missing above it.
 *
 * `mkdir` of Node with `recursive` never returns where a file system refuses new folders with ENOENT, as `/proc` does: it
 * makes the one above again and again.
 *
 * @throws What the system refuses with: the error has its `code` and `syscall`.
 */
export function makeFolder(folder: string): void {
  if (isFolder(folder)) return
  const above = path.dirname(folder)
  if (!statSync(above, { throwIfNoEntry: false })) makeFolder(above)
  try {
    mkdirSync(folder, { mode: 0o700 })
  } catch (error) {
    if (!isFolder(folder)) throw error // otherwise another process was faster
  }
}

function isFolder(folder: string): boolean {
  return statSync(folder, { throwIfNoEntry: false })?.isDirectory() ?? false
}
