import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { ConfigError, StartError } from '@bureau/protocol'

/** SQLite's code for a lock that another connection holds. */
const SQLITE_BUSY = 5

/**
 * Takes a folder for this process alone and answers how to give it back.
 *
 * PGlite itself lets a second process in, which then silently loses rows. The lock is one that the kernel frees with
 * the process, also after kill -9, so there is never a stale one; it holds between containers that share the folder.
 *
 * @throws ConfigError another process, or this one, has the folder open. @throws StartError its lock cannot be used.
 */
export function lockFolder(folder: string): () => void {
  const file = join(folder, 'lock')
  let lock: DatabaseSync | undefined
  try {
    lock = new DatabaseSync(file, { timeout: 0 })
    lock.exec('PRAGMA journal_mode = delete; BEGIN EXCLUSIVE')
  } catch (cause) {
    lock?.close()
    const { errcode, message } = cause as Error & { readonly errcode?: number }
    if (errcode === SQLITE_BUSY) {
      throw new ConfigError(`The data folder ${folder} is in use by another process.`, { cause })
    }
    throw new StartError(`${file} cannot be locked: ${message}. Make it writable for this user, or delete it.`, {
      cause,
    })
  }
  return () => lock.close()
}
