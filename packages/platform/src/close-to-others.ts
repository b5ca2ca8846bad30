import { chmodSync, statSync } from 'node:fs'
import path from 'node:path'
import type { Logger } from '@bureau/runtime'

/** What lies in the data folder for this user alone. Some of it is made wider, by an engine or an earlier version. */
const PRIVATE: Readonly<Record<string, number>> = {
  records: 0o700,
  blobs: 0o700,
  mounts: 0o700,
  uploads: 0o700,
  staging: 0o700,
  backups: 0o700,
  FORMAT: 0o600,
  lock: 0o600, // whoever can read it can hold it
  'master.key': 0o600,
  'credentials.json': 0o600,
}

const OTHERS = 0o077

/**
 * Takes away what other users of the machine may do with the contents of the data folder. The folder itself keeps its
 * mode: whoever made it may have more in it.
 */
export function closeToOthers(dataFolder: string, log: Logger): void {
  for (const [name, mode] of Object.entries(PRIVATE)) {
    const file = path.join(dataFolder, name)
    const stats = statSync(file, { throwIfNoEntry: false })
    if (!stats || (stats.mode & OTHERS) === 0) continue
    try {
      chmodSync(file, mode)
    } catch (error) {
      log.warn({ err: error, file }, 'other users of this machine may use this, and its mode cannot be changed')
    }
  }
}
