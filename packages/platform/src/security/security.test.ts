import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { assert, property, jsonValue } from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../db/database.ts'
import { ENGINES, openTestDatabase, queryRows } from '../db/engines.contract.ts'
import { newId } from '../ids.ts'
import { createOwner } from '../owners/create-owner.ts'
import { insertReplica, setReplicaState } from '../runs/recover/replicas.repo.ts'
import { DataKeys } from '../owners/data-keys.ts'
import { canonicalJson, fingerprint } from './fingerprint.ts'
import { loadMasterKeyFile, parseMasterKey } from './master-key.ts'
import { rewrapKeys } from '../owners/rewrap-keys.ts'
import { type Place, seal, SealError, unseal, unsealText } from './seal.ts'
import { loadServerKey } from './server-key.ts'

const place: Place = { table: 'secrets', column: 'ciphertext', owner: 'own_a', row: 'sec_1' }

describe('seal', () => {
  const key = randomBytes(32)

  test('opens at its place with its key, also when empty', () => {
    expect(unsealText(key, place, seal(key, place, 'Grüße'))).toBe('Grüße')
    expect(unseal(key, place, seal(key, place, ''))).toEqual(new Uint8Array())
  })

  test.each(['table', 'column', 'owner', 'row'] as const)('does not open with another %s', (part) => {
    const sealed = seal(key, place, 'secret')
    expect(() => unseal(key, { ...place, [part]: 'other' }, sealed)).toThrow('altered, or sealed for another place')
  })

  test('does not open with another key, or when one bit was changed', () => {
    const sealed = seal(key, place, 'secret')
    expect(() => unseal(randomBytes(32), place, sealed)).toThrow('another key')
    for (const index of [5, 20, sealed.length - 1]) {
      const altered = sealed.slice()
      altered[index] = altered[index]! ^ 1
      expect(() => unseal(key, place, altered)).toThrow(SealError)
    }
    expect(() => unseal(key, place, sealed.slice(0, 10))).toThrow('not a sealed value')
  })

  test('never seals alike twice', () => {
    expect(seal(key, place, 'secret')).not.toEqual(seal(key, place, 'secret'))
  })
})

describe('master key', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bureau-key-'))
  afterAll(() => rmSync(folder, { recursive: true }))

  test('is generated once, readable by its user alone', () => {
    const file = join(folder, 'master.key')
    const key = loadMasterKeyFile(file)
    expect(key).toHaveLength(32)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(loadMasterKeyFile(file)).toEqual(key)
  })

  test('is read from hexadecimal or base64; anything else is a set-up error', () => {
    const key = new Uint8Array(randomBytes(32))
    expect(parseMasterKey(Buffer.from(key).toString('hex'), 'KEY')).toEqual(key)
    expect(parseMasterKey(Buffer.from(key).toString('base64'), 'KEY')).toEqual(key)
    expect(() => parseMasterKey('short', 'KEY')).toThrow('KEY: the master key must be 32 bytes')
  })
})

describe('fingerprint', () => {
  test('does not depend on the order of names, does on everything else', () => {
    const key = randomBytes(32)
    const one = fingerprint(key, { b: [1, { d: 'x', c: null }], a: 'é', gone: undefined })
    expect(fingerprint(key, { a: 'é', b: [1, { c: null, d: 'x' }] })).toEqual(one)
    expect(fingerprint(key, { a: 'é', b: [{ c: null, d: 'x' }, 1] })).not.toEqual(one)
    expect(fingerprint(randomBytes(32), { a: 'é', b: [1, { c: null, d: 'x' }] })).not.toEqual(one)
  })

  test('canonical JSON is JSON of the same value', () => {
    const isSameValue = (value: unknown): void => {
      expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)))
    }
    assert(property(jsonValue(), isSameValue))
  })
})

describe.each(ENGINES)('keys of the platform on %s', (engine) => {
  let db: Database
  let drop: () => Promise<void>
  beforeAll(async () => {
    ;({ db, drop } = await openTestDatabase(engine))
  })
  afterAll(() => drop())

  test('all processes that start together get the same server key', async () => {
    const master = new Uint8Array(randomBytes(32))
    const [first, ...others] = await Promise.all(Array.from({ length: 8 }, () => loadServerKey(db, master)))
    for (const key of others) expect(key).toEqual(first)
    await db.run(queryRows, 'DELETE FROM platform_keys')
  })

  test('another master key opens everything, the old one nothing; a repetition wraps nothing', async () => {
    const [from, to] = [new Uint8Array(randomBytes(32)), new Uint8Array(randomBytes(32))]
    const { id } = await createOwner(db, new DataKeys(db, from), { name: 'Ada' })
    const before = await new DataKeys(db, from).of(id)
    const serverKey = await loadServerKey(db, from)

    expect(await rewrapKeys(db, { from, to: () => to })).toBe(2)
    expect(await rewrapKeys(db, { from, to: () => to })).toBe(0)

    expect(await new DataKeys(db, to).of(id)).toEqual(before)
    expect(await loadServerKey(db, to)).toEqual(serverKey)
    await expect(new DataKeys(db, from).of(id)).rejects.toThrow('another key')
    await db.run(queryRows, 'DELETE FROM platform_keys')
    await db.run(queryRows, 'DELETE FROM owners')
  })

  test('one key that opens with neither master key, and nothing is wrapped', async () => {
    const [from, to, other] = [1, 2, 3].map((byte) => new Uint8Array(32).fill(byte)) as [
      Uint8Array,
      Uint8Array,
      Uint8Array,
    ]
    const serverKey = await loadServerKey(db, from)
    const { id } = await createOwner(db, new DataKeys(db, from), { name: 'Ada' })
    await createOwner(db, new DataKeys(db, other), { name: 'Bob' })

    await expect(rewrapKeys(db, { from, to: () => to })).rejects.toThrow('sealed with another key')

    expect(await loadServerKey(db, from)).toEqual(serverKey)
    await expect(new DataKeys(db, from).of(id)).resolves.toHaveLength(32)
    await db.run(queryRows, 'DELETE FROM platform_keys')
    await db.run(queryRows, 'DELETE FROM owners')
  })

  test("processes on a server are to be stopped first; what a killed one left in a folder is in nobody's way", async () => {
    const keys = { from: new Uint8Array(32), to: new Uint8Array(32).fill(1) }
    const serverKey = await loadServerKey(db, keys.from)
    const bootId = newId('boot')
    await db.run(insertReplica, { bootId, version: 'test', lockId: null })

    let made = 0
    const rewrapping = {
      from: keys.from,
      to: () => {
        made += 1
        return keys.to
      },
    }

    const first = await rewrapKeys(db, rewrapping).catch(String)
    // A refusal has made no key, which would lie beside the file afterwards.
    expect(made).toBe(engine === 'postgres' ? 0 : 1)
    await db.run(setReplicaState, { bootId, state: 'gone' })
    const second = await rewrapKeys(db, rewrapping)

    const refusal = expect.stringContaining('Processes of the platform use this database: 1. Stop them all')
    expect([first, second]).toEqual(engine === 'postgres' ? [refusal, 1] : [1, 0])
    expect(await loadServerKey(db, keys.to)).toEqual(serverKey)
  })
})
