import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createFirstApiKey } from './api-keys/create-api-key.ts'
import { loadPlatformConfig } from './config.ts'
import { ENGINES, openTestDatabase } from './db/engines.contract.ts'
import { createOwner } from './owners/create-owner.ts'
import { equipStore, openPlatformStore } from './platform-store.ts'
import { admitCompletion } from './runs/admit/admit-completion.ts'
import { AGENCIES, completion, openTestStore } from './test-store.contract.ts'

describe('the store', () => {
  test.runIf(ENGINES.includes('postgres'))(
    'a second process with the same master key is the same platform',
    async () => {
      const { db, url, drop } = await openTestDatabase('postgres')
      const masterKey = new Uint8Array(randomBytes(32))
      const config = { ...loadPlatformConfig({ DATABASE_URL: url }), masterKey }
      const [one, two] = await Promise.all([openPlatformStore(config), openPlatformStore(config)])
      const owner = await createOwner(one.db, one.dataKeys, { name: 'Ada' })
      const { token } = await createFirstApiKey(one.keyIssuer, owner.id, { name: 'first' })

      expect(await two.authenticator.authenticate(`Bearer ${token}`)).toMatchObject({ ownerId: owner.id })
      expect(await two.dataKeys.of(owner.id)).toEqual(await one.dataKeys.of(owner.id))
      expect(two.serverKey).toEqual(one.serverKey)

      await expect(openPlatformStore({ ...config, masterKey: new Uint8Array(32) })).rejects.toThrow('another key')
      const elsewhere = await equipStore(db, { masterKey, issuer: 'https://elsewhere.example' })
      await expect(elsewhere.authenticator.authenticate(`Bearer ${token}`)).rejects.toMatchObject({
        code: 'invalid_api_key',
      })
      for (const store of [one, two]) await store.db.close()
      await drop()
    },
  )

  test.each(ENGINES)('a client that has left gets no run, on %s', async (engine) => {
    const platform = await openTestStore(engine)
    const tenant = await platform.addTenant()
    const left = new AbortController()
    const request = completion({ apiIntegrationId: tenant.integrationId, usageRequestId: 'left' })
    const options = { bootId: platform.bootId, agencies: AGENCIES, missingSandboxFiles: [], signal: left.signal }
    const admission = admitCompletion(platform.store, tenant.caller, request, options)
    left.abort(new Error('the client left'))
    await expect(admission).rejects.toThrow('the client left')
    expect(await platform.rows('SELECT id FROM runs UNION ALL SELECT id FROM chats')).toEqual([])
    await platform.drop()
  })

  test('a sandbox file that is not there is refused after everything else', async () => {
    const platform = await openTestStore('pglite')
    const tenant = await platform.addTenant()
    const options = { bootId: platform.bootId, agencies: AGENCIES, signal: new AbortController().signal }
    const request = completion({ apiIntegrationId: tenant.integrationId })
    const admit = (missing: string[], change = {}) =>
      admitCompletion(
        platform.store,
        tenant.caller,
        { ...request, ...change },
        { ...options, missingSandboxFiles: missing },
      )
    await expect(admit(['/app/mnt/x'])).rejects.toMatchObject({ code: 'sandbox_file_not_found' })
    await expect(admit(['/app/mnt/x'], { agent: 'Janitor' })).rejects.toMatchObject({ code: 'invalid_agent' })
    expect(await admit([])).toMatchObject({ outcome: 'admitted' })
    await platform.drop()
  })
})
