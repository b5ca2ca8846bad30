import { existsSync } from 'node:fs'
import path from 'node:path'
import { ServiceError, StartError } from '@bureau/protocol'
import type { PlatformConfig } from './config.ts'
import { SealError } from './security/seal.ts'

/** Why the system refuses a file. */
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  ENOTDIR: 'a part of its path is a file',
  EEXIST: 'it is a file',
  ENOENT: 'it cannot be made there',
}

/** What to say of a data folder that the system keeps from this process; undefined when the error is about something else. */
export function folderError(error: unknown, folder: string | undefined): StartError | undefined {
  const { code, syscall } = error as NodeJS.ErrnoException
  const reason = REASONS[code ?? '']
  if (folder === undefined || syscall === undefined || reason === undefined) return undefined
  const advice = `Make it writable for this user (${syscall} failed with ${code}), or name another with BUREAU_DATA.`
  return new StartError(`The data folder ${folder} cannot be used: ${reason}. ${advice}`, { cause: error })
}

/** What to tell whoever starts the platform, where there is something that they can do; otherwise the error itself. */
export function startError(error: unknown, { dataFolder, masterKey }: PlatformConfig): unknown {
  if (error instanceof ServiceError && error.code === 'database_unavailable')
    return new StartError(`The database cannot be reached: ${error.detail}.`, { cause: error })
  if (!(error instanceof SealError)) return folderError(error, dataFolder) ?? error
  const key = masterKey === undefined ? `master.key in ${dataFolder}` : 'PLATFORM_MASTER_KEY'
  const advice =
    masterKey === undefined && existsSync(path.join(dataFolder, 'master.key.new'))
      ? 'A change of the key was cut off: run bureau rotate-master-key again.'
      : 'Use the one that it was made with.'
  return new StartError(`${key} is not the master key of this database. ${advice}`, { cause: error })
}
