import { randomBytes } from 'node:crypto'
import { describeTokenStore } from '@bureau/framework/testing/token-store'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../db/database.ts'
import { ENGINES, openTestDatabase, queryRows, queryRowsAs } from '../db/engines.contract.ts'
import { openDatabase } from '../db/open-database.ts'
import { sweepAllExpired } from '../db/sweep-expired.ts'
import { createOwner } from '../owners/create-owner.ts'
import { DataKeys } from '../owners/data-keys.ts'
import { consumersPrefix, signInUserOf } from '../security/credential-name.ts'
import { releaseLease, takeLease } from './leases.ts'
import { SqlTokenStore } from './token-store.sql.ts'

const SAVED = {
  tokens: { access_token: 'canary-token', token_type: 'Bearer', refresh_token: 'canary-refresh' },
  client: { client_id: 'c', client_secret: 'canary-client' },
}
const ADA = { userId: 'int_1/ada', server: 'notes-0123' }

const master = new Uint8Array(randomBytes(32))

type Stores = {
  readonly db: Database
  readonly unreadable: string[]
  readonly of: (ownerId: string) => SqlTokenStore
}

/** Stores as one process has them. */
function storesOn(db: Database): Stores {
  const unreadable: string[] = []
  const onUnreadable = (error: Error): void => void unreadable.push(error.message)
  const of = (ownerId: string): SqlTokenStore =>
    new SqlTokenStore({ db, dataKeys: new DataKeys(db, master), ownerId, onUnreadable })
  return { db, unreadable, of }
}

const newOwner = async (db: Database): Promise<string> =>
  (await createOwner(db, new DataKeys(db, master), { name: 'Ada' })).id

describe.each(ENGINES)('tokens in the records on %s', (engine) => {
  describeTokenStore(engine, async () => {
    const { db, url, drop } = await openTestDatabase(engine)
    const ownerId = await newOwner(db)
    // The embedded database has one process.
    const other = engine === 'pglite' ? db : await openDatabase(url)
    const close = async (): Promise<void> => {
      if (other !== db) await other.close()
      await drop()
    }
    return { store: storesOn(db).of(ownerId), elsewhere: storesOn(other).of(ownerId), close }
  })

  describe('beyond the contract', () => {
    let stores: Stores
    let drop: () => Promise<void>
    let ownerId: string
    beforeAll(async () => {
      const opened = await openTestDatabase(engine)
      drop = opened.drop
      stores = storesOn(opened.db)
      ownerId = await newOwner(opened.db)
    })
    afterAll(() => drop())

    const rows = (query: string): Promise<Record<string, unknown>[]> => stores.db.run(queryRows, query)

    test('nothing of them stands in plain text, and no other owner sees the row', async () => {
      await stores.of(ownerId).save(ADA, SAVED)
      const stored = await rows('SELECT t::text AS everything FROM secrets t')
      expect(stored).toHaveLength(1)
      expect(JSON.stringify(stored)).not.toContain(Buffer.from('canary').toString('hex'))
      const bob = await newOwner(stores.db)
      expect(await stores.db.run(queryRowsAs, { ownerId: bob, query: 'SELECT * FROM secrets' })).toEqual([])
      expect(await stores.of(bob).load(ADA)).toEqual({})
    })

    test("a row copied to another user's place counts as absent, and is reported", async () => {
      await stores.of(ownerId).save(ADA, SAVED)
      await rows(`INSERT INTO secrets (id, owner_id, scope, name, ciphertext)
        SELECT 'sec_copy', owner_id, scope, replace(name, 'ada', 'eve'), ciphertext FROM secrets WHERE name LIKE '%ada%'`)
      expect(await stores.of(ownerId).load({ ...ADA, userId: 'int_1/eve' })).toEqual({})
      expect(stores.unreadable).toEqual(['altered, or sealed for another place'])
    })

    test('the longest consumer id has a place of its own, below its integration', async () => {
      const integrationId = `int_${'0'.repeat(26)}`
      const consumerId = Array.from({ length: 256 }, (_, index) => String.fromCharCode(0x4e00 + index * 61)).join('')
      const key = {
        userId: signInUserOf({ ownerId, integrationId, consumerId }),
        server: `${'n'.repeat(40)}-0123456789abcdef`,
      }
      const store = stores.of(ownerId)
      await store.exclusive(key, () => store.save(key, SAVED))
      expect(await store.load(key)).toEqual(SAVED)
      const below = await rows(`SELECT 1 FROM secrets WHERE starts_with(name, '${consumersPrefix(integrationId)}')`)
      expect(below).toHaveLength(1)
    })

    test('the lease of a process that has died runs out; until then it is respected', async () => {
      const key = { userId: 'lin', server: 'notes' }
      const lease = { ownerId, name: 'oauth/lin/notes' }
      expect(await stores.db.run(takeLease, { ...lease, holder: 'dead' })).toBe(true)
      expect(await stores.db.run(takeLease, { ...lease, holder: 'other' })).toBe(false)
      let entered = false
      const waiting = stores.of(ownerId).exclusive(key, async () => void (entered = true))
      await rows('SELECT 1')
      expect(entered).toBe(false)
      // What is left when nobody renews it.
      await rows(`UPDATE leases SET expires_at = now() - interval '1 second'`)
      await waiting
      expect(entered).toBe(true)
      expect(await rows('SELECT * FROM leases')).toEqual([])
    })

    test("the lease of a process that has died while the clock of the database was ahead is nobody else's trouble", async () => {
      const lease = { ownerId, name: 'oauth/ahead' }
      await stores.db.run(takeLease, { ...lease, holder: 'dead' })
      await rows(`UPDATE leases SET expires_at = now() + interval '3 years' WHERE name = 'oauth/ahead'`)
      expect(await stores.db.run(takeLease, { ...lease, holder: 'other' })).toBe(true)
      expect(await stores.db.run(takeLease, { ...lease, holder: 'third' })).toBe(false)
      await stores.db.run(releaseLease, { ...lease, holder: 'other' })
    })

    test('leases that nobody asks for any more are swept', async () => {
      await stores.db.run(takeLease, { ownerId, name: 'old', holder: 'dead' })
      await stores.db.run(takeLease, { ownerId, name: 'new', holder: 'alive' })
      await rows(`UPDATE leases SET expires_at = now() - interval '2 hours' WHERE name = 'old'`)
      await sweepAllExpired(stores.db)
      expect(await rows('SELECT name FROM leases')).toEqual([{ name: 'new' }])
    })
  })
})
