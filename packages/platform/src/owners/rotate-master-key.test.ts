import { randomBytes } from 'node:crypto'
import { copyFileSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { StartError } from '@bureau/protocol'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { loadPlatformConfig } from '../config.ts'
import type { Database } from '../db/database.ts'
import { openTestDatabase, queryRows } from '../db/engines.contract.ts'
import { loadMasterKeyFile } from '../security/master-key.ts'
import { rotateMasterKey } from './rotate-master-key.ts'
import { loadServerKey } from '../security/server-key.ts'

let db: Database
let folder: string
beforeAll(async () => void ({ db } = await openTestDatabase('pglite')))
afterAll(() => db.close())
beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), 'bureau-rotate-'))))
afterEach(async () => {
  rmSync(folder, { recursive: true })
  await db.run(queryRows, 'DELETE FROM platform_keys')
})

const inFolder = (name: string): string => path.join(folder, name)

/** The records stay open from one opening to the next. */
const open = async (): Promise<Database> => ({
  engine: db.engine,
  failed: db.failed,
  run: (operation, args, options) => db.run(operation, args, options),
  close: async () => {},
})

test('the file gets a new key and the old one stays beside it; what was killed on the way is finished', async () => {
  const old = loadMasterKeyFile(inFolder('master.key'))
  const serverKey = await loadServerKey(db, old)
  const config = loadPlatformConfig({ BUREAU_DATA: folder })

  const { wrapped, oldKeyFile } = await rotateMasterKey(config, open)

  expect(wrapped).toBe(1)
  expect(loadMasterKeyFile(oldKeyFile!)).toEqual(old)
  expect(statSync(inFolder('master.key')).mode & 0o777).toBe(0o600)
  const replaced = loadMasterKeyFile(inFolder('master.key'))
  expect(await loadServerKey(db, replaced)).toEqual(serverKey)

  // Killed between the two: the records have the new key, the file has not.
  renameSync(inFolder('master.key'), inFolder('master.key.new'))
  copyFileSync(oldKeyFile!, inFolder('master.key'))
  expect(await rotateMasterKey(config, open)).toMatchObject({ wrapped: 0 })
  expect(loadMasterKeyFile(inFolder('master.key'))).toEqual(replaced)
  expect(readdirSync(folder)).not.toContain('master.key.new')
})

test('a key of the environment takes the place of another, and the files stay as they are', async () => {
  const [from, to] = [randomBytes(32), randomBytes(32)].map((key) => key.toString('hex')) as [string, string]
  const serverKey = await loadServerKey(db, Buffer.from(from, 'hex'))
  const before = readdirSync(folder)
  const env = { BUREAU_DATA: folder, PLATFORM_MASTER_KEY: from }

  await expect(rotateMasterKey(loadPlatformConfig(env), open)).rejects.toThrow('PLATFORM_NEW_MASTER_KEY: set 32 bytes')
  await expect(rotateMasterKey(loadPlatformConfig({ ...env, PLATFORM_NEW_MASTER_KEY: from }), open)).rejects.toThrow(
    'this is the master key that is in use',
  )
  expect(await rotateMasterKey(loadPlatformConfig({ ...env, PLATFORM_NEW_MASTER_KEY: to }), open)).toEqual({
    wrapped: 1,
    oldKeyFile: undefined,
  })

  expect(await loadServerKey(db, Buffer.from(to, 'hex'))).toEqual(serverKey)
  expect(readdirSync(folder)).toEqual(before)
})

test('a wrong key, none, or records that are in use: told in one line, and no key has changed', async () => {
  const config = loadPlatformConfig({ BUREAU_DATA: folder })
  await expect(rotateMasterKey(config, open)).rejects.toThrow('There is no master key')

  const key = loadMasterKeyFile(inFolder('master.key'))
  const serverKey = await loadServerKey(db, key)
  const inUse = async (): Promise<Database> => {
    throw new StartError('in use')
  }
  await expect(rotateMasterKey(config, inUse)).rejects.toThrow(new StartError('in use'))

  const keys = { PLATFORM_MASTER_KEY: 'ab'.repeat(32), PLATFORM_NEW_MASTER_KEY: 'cd'.repeat(32) }
  await expect(rotateMasterKey(loadPlatformConfig({ BUREAU_DATA: folder, ...keys }), open)).rejects.toThrow(
    'PLATFORM_MASTER_KEY is not the master key of this database',
  )
  expect(await loadServerKey(db, key)).toEqual(serverKey)
  expect(readdirSync(folder)).toEqual(['master.key'])
})
