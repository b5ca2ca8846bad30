import { randomBytes } from 'node:crypto'
import { link, open, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolder } from '../make-folder.ts'
import { newSealKey } from './seal-file.ts'

/**
 * The key of a folder: 32 random bytes in base64, made once and kept in its file `key` with mode 0600. The folder is made with
 * mode 0700. Of several processes that come first together, one makes the key for all.
 */
export async function keyOfFolder(directory: string): Promise<string> {
  makeFolder(directory)
  const path = join(directory, 'key')
  await createOnce(path, newSealKey())
  return readFile(path, 'utf8')
}

/**
 * Makes a file with its whole content, unless it exists. An existing file is not opened: closing it again would free a
 * lock that this process holds on it (POSIX).
 */
export async function createOnce(path: string, content: string): Promise<void> {
  if (await stat(path).catch(undefinedWhenMissing)) return
  const temporary = await writeTemporary(path, content)
  try {
    await link(temporary, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    await rm(temporary, { force: true })
  }
}

/** Writes a file beside `path` that may take its place. @returns where it is */
export async function writeTemporary(path: string, content: string): Promise<string> {
  const temporary = `${path}.${randomBytes(8).toString('hex')}.tmp`
  const file = await open(temporary, 'wx', 0o600)
  try {
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
  return temporary
}

export function undefinedWhenMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
