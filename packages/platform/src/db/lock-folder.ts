import { join } from 'node:path'
import { tryLock } from '@bureau/framework'
import { StartError } from '@bureau/protocol'

/**
 * Takes a folder for this process alone and answers how to give it back.
 *
 * PGlite itself lets a second process in, which then silently loses rows. The lock is one that the kernel frees with
 * the process, also after kill -9, so there is never a stale one; it holds between containers that share the folder.
 *
 * @throws StartError another process, or this one, has the folder open, or its lock cannot be used.
 */
export function lockFolder(folder: string): () => void {
  const file = join(folder, 'lock')
  const unlock = lock(file)
  if (!unlock)
    throw new StartError(
      `The data folder ${folder} is in use by another process. Stop it, or choose another folder with BUREAU_DATA.`,
    )
  return unlock
}

function lock(file: string): ReturnType<typeof tryLock> {
  try {
    return tryLock(file)
  } catch (cause) {
    const { message } = cause as Error
    throw new StartError(`${file} cannot be locked: ${message}. Make it writable for this user, or delete it.`, {
      cause,
    })
  }
}
