import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseSync } from 'node:sqlite'

/** SQLITE_BUSY, the primary code of all its variants. */
const BUSY = 5
const RETRY_MS = 20

/**
 * Waits until this caller alone holds the lock of a file, and answers how to give it back.
 *
 * The kernel frees the lock with the process, also after kill -9, so there is never a stale one. It holds between
 * processes, and between machines where the file system has POSIX locks.
 *
 * @throws Error the lock was not free for `timeoutMs`.
 */
export async function lockFile(path: string, timeoutMs: number): Promise<() => void> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const unlock = tryLock(path)
    if (unlock) return unlock
    if (performance.now() > deadline) throw new Error(`${path} has been locked for ${timeoutMs} ms`)
    await sleep(RETRY_MS + Math.random() * RETRY_MS)
  }
}

/** Takes the lock of a file, and answers how to give it back; undefined: another one holds it. @throws Error it cannot be locked. */
export function tryLock(path: string): (() => void) | undefined {
  const lock = new DatabaseSync(path, { timeout: 0 })
  try {
    lock.exec('PRAGMA journal_mode = delete; BEGIN EXCLUSIVE')
    return () => lock.close()
  } catch (error) {
    lock.close()
    if ((((error as { errcode?: number }).errcode ?? 0) & 0xff) === BUSY) return undefined
    throw error
  }
}
