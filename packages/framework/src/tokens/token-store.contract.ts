import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { CredentialsKey, StoredCredentials, TokenStore } from './token-store.ts'

type OpenedTokenStore = {
  readonly store: TokenStore
  /** The same data as another process would open it. */
  readonly elsewhere: TokenStore
  readonly close: () => Promise<void>
}

const ISSUER = 'https://login.example'

function credentials(token: string): StoredCredentials {
  return {
    tokens: {
      access_token: token,
      token_type: 'Bearer',
      refresh_token: `refresh-${token}`,
      scope: 'read',
      issuer: ISSUER,
    },
    expiresAt: 1_800_000_000_000,
    client: { client_id: `client-${token}`, issuer: ISSUER },
  }
}

let keys = 0
const newKey = (userId = `user-${++keys}`): CredentialsKey => ({ userId, server: `docs-${++keys}` })

/** What every TokenStore promises. */
export function describeTokenStore(name: string, open: () => Promise<OpenedTokenStore>): void {
  describe(`token store: ${name}`, () => {
    let opened: OpenedTokenStore
    let store: TokenStore

    beforeAll(async () => {
      opened = await open()
      store = opened.store
    })
    afterAll(() => opened.close())

    test('has nothing for a user who never signed in', async () => {
      expect(await store.load(newKey())).toEqual({})
    })

    test('gives back what was saved, whole, here and elsewhere', async () => {
      const key = newKey()
      await store.save(key, credentials('one'))
      expect(await store.load(key)).toEqual(credentials('one'))
      expect(await opened.elsewhere.load(key)).toEqual(credentials('one'))
    })

    test('replaces everything: parts that are missing from the new credentials are gone', async () => {
      const key = newKey()
      await store.save(key, credentials('one'))
      const { client } = credentials('one')
      await store.save(key, { client: client! })
      expect(await store.load(key)).toEqual({ client })
    })

    test('deletes, and may be told to again', async () => {
      const key = newKey()
      await store.save(key, credentials('one'))
      await store.delete(key)
      await store.delete(key)
      expect(await store.load(key)).toEqual({})
    })

    test('keeps users apart at one server, whatever their ids look like', async () => {
      const ids = [
        'ada',
        'Ada',
        'ada ',
        '../ada',
        'a/d/a',
        '..',
        '.',
        'ada\u0000',
        'a\u0301da',
        '\u00e1da',
        'x'.repeat(5_000),
      ]
      const server = `docs-${++keys}`
      for (const userId of ids) await store.save({ userId, server }, credentials(userId))
      for (const userId of ids) {
        expect((await store.load({ userId, server })).tokens?.access_token).toBe(userId)
      }
    })

    test('keeps the servers of one user apart', async () => {
      const one = newKey('grace')
      const other = newKey('grace')
      await store.save(one, credentials('one'))
      expect(await store.load(other)).toEqual({})
    })

    test.each(['', '  ', '\ud800'])('refuses a user that is not named: %j', async (userId) => {
      await expect(store.save({ userId, server: 'docs' }, credentials('one'))).rejects.toThrow('named users only')
      await expect(store.load({ userId, server: 'docs' })).rejects.toThrow('named users only')
    })

    test('saves that race leave one of them whole', async () => {
      const key = newKey()
      const names = Array.from({ length: 20 }, (_, index) => `token-${index}`)
      await Promise.all(
        names.map((token, index) => (index % 2 ? store : opened.elsewhere).save(key, credentials(token))),
      )
      const { tokens } = await store.load(key)
      expect(names).toContain(tokens?.access_token)
      expect(tokens).toEqual(credentials(tokens!.access_token).tokens)
    })

    test('exclusive work under one key never overlaps, here and elsewhere', async () => {
      const key = newKey()
      let inside = 0
      const work = async (): Promise<void> => {
        expect(++inside).toBe(1)
        const { tokens } = await store.load(key)
        await store.save(key, credentials(String(Number(tokens?.access_token ?? 0) + 1)))
        inside--
      }
      await Promise.all(Array.from({ length: 10 }, (_, i) => (i % 2 ? store : opened.elsewhere).exclusive(key, work)))
      expect((await store.load(key)).tokens?.access_token).toBe('10')
    })

    test('exclusive work under other keys does not wait, and its result comes back', async () => {
      const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
      const first = store.exclusive(newKey('lin'), () => held)
      expect(await store.exclusive(newKey('lin'), async () => 'done')).toBe('done')
      letGo()
      await first
    })

    test('exclusive work that fails gives its place up', async () => {
      const key = newKey()
      const failing = store.exclusive(key, async () => {
        throw new Error('refused')
      })
      await expect(failing).rejects.toThrow('refused')
      expect(await opened.elsewhere.exclusive(key, async () => 'next')).toBe('next')
    })
  })
}
