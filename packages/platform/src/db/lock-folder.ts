import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { ConfigError } from '@bureau/protocol'

/**
 * Takes a folder for this process alone and answers how to give it back.
 *
 * PGlite itself lets a second process in, which then silently loses rows. The lock is one that the kernel frees with
 * the process, also after kill -9, so there is never a stale one; it holds between containers that share the folder.
 *
 * @throws ConfigError another process, or this one, has the folder open.
 */
export function lockFolder(folder: string): () => void {
  const lock = new DatabaseSync(join(folder, 'lock'), { timeout: 0 })
  try {
    lock.exec('PRAGMA journal_mode = delete; BEGIN EXCLUSIVE')
  } catch (cause) {
    lock.close()
    throw new ConfigError(`The data folder ${folder} is in use by another process.`, { cause })
  }
  return () => lock.close()
}
