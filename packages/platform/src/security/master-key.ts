import { randomBytes } from 'node:crypto'
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { ConfigError } from '@bureau/protocol'

const BYTES = 32

/**
 * The key that wraps all others: 64 hexadecimal digits or base64 of 32 bytes.
 *
 * @param origin Where it stands, e.g. `PLATFORM_MASTER_KEY`. @throws ConfigError anything else; names the origin.
 */
export function parseMasterKey(text: string, origin: string): Uint8Array {
  const key = /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : Buffer.from(text, 'base64')
  if (key.length !== BYTES)
    throw new ConfigError(`${origin}: the master key must be 32 bytes, in hexadecimal or base64.`)
  return new Uint8Array(key)
}

/** The master key in a file that only this user can read, generated when it is missing. */
export function loadMasterKeyFile(file: string): Uint8Array {
  try {
    return parseMasterKey(readFileSync(file, 'utf8').trim(), file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  // Written whole before it gets its name, and never over another process's key.
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${randomBytes(BYTES).toString('hex')}\n`, { mode: 0o600, flush: true })
  try {
    linkSync(draft, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(draft)
  }
  return parseMasterKey(readFileSync(file, 'utf8').trim(), file)
}
