import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import { ensureFirstOwner } from '@bureau/platform'
import { expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { TestClient } from './support/test-client.ts'
import { ENGINES, startPlatform } from './support/test-platform.ts'

test.each(['findOrInsertOwner', 'publishAgencies', 'insertApiKey'])(
  'a first start that was cut short at %s is done to the end by the next one: one owner, one integration, a key',
  async (operation) => {
    const cut = { short: true }
    const intercept = (name: string): Error | undefined =>
      cut.short && name === operation ? new Error('the process is gone') : undefined
    const platform = await startPlatform('pglite', { intercept })
    closeAfterTest(() => platform.close())
    platform.provider.respond(() => text('Welcome.'))
    await expect(ensureFirstOwner(platform.platform)).rejects.toThrow('gone')
    cut.short = false

    const made = await ensureFirstOwner(platform.platform)

    const file = path.join(platform.dataFolder, 'credentials.json')
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(made)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(existsSync(`${file}.new`)).toBe(false)
    const { apiKey, apiIntegrationId } = made!
    const client = new TestClient({ url: platform.url, token: apiKey, ownerId: '', integrationId: apiIntegrationId })
    expect((await client.completeWhole()).stream.spoken).toBe('Welcome.')
    expect((await client.get('/v1/integrations')).body.data).toHaveLength(1)
    expect(await platform.rows('SELECT id FROM owners')).toHaveLength(1)
    expect(await ensureFirstOwner(platform.platform)).toBeUndefined()
  },
)

test.each(ENGINES)(
  'of two first starts at once on %s one makes the owner, and the keys of both work',
  async (engine) => {
    const platform = await startPlatform(engine)
    closeAfterTest(() => platform.close())
    platform.provider.respond(() => text('Welcome.'))
    const { store } = platform.platform
    let looking = 2
    const bothLooked = Promise.withResolvers<void>()
    const run: typeof store.db.run = async (operation, ...rest) => {
      const result = await store.db.run(operation, ...rest)
      if (operation.name === 'findFirstOwner' && --looking === 0) bothLooked.resolve()
      if (operation.name === 'findFirstOwner') await bothLooked.promise
      return result
    }
    const starting = { ...platform.platform, store: { ...store, db: { ...store.db, run } } }

    const made = await Promise.all([ensureFirstOwner(starting), ensureFirstOwner(starting)])

    expect(await platform.rows('SELECT id FROM owners')).toEqual([{ id: made[0]!.ownerId }])
    for (const credentials of made) {
      const { apiKey, apiIntegrationId } = credentials!
      const client = new TestClient({ url: platform.url, token: apiKey, ownerId: '', integrationId: apiIntegrationId })
      expect((await client.completeWhole()).stream.spoken).toBe('Welcome.')
      expect((await client.get('/v1/integrations')).body.data).toHaveLength(1)
    }
    const files = (await readdir(platform.dataFolder)).filter((name) => name.startsWith('credentials'))
    expect(files).toEqual(['credentials.json'])
    expect(made).toContainEqual(JSON.parse(await readFile(path.join(platform.dataFolder, 'credentials.json'), 'utf8')))
  },
)
