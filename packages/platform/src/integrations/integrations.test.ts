import { describe, expect, test } from 'vitest'
import { ENGINES } from '../db/engines.contract.ts'
import { beatReplica } from '../runs/recover/replicas.repo.ts'
import type { TestTenant } from '../test-store.contract.ts'
import { codeOf, useTestStore } from '../use-test-store.contract.ts'
import { getIntegration, listIntegrations } from './integrations.repo.ts'
import { deleteIntegration, type IntegrationChanges, updateIntegration } from './manage-integrations.ts'

describe.each(ENGINES)('integrations on %s', (engine) => {
  const platform = useTestStore(engine)

  const keyOf = ({ ownerId, integrationId }: TestTenant) => ({ ownerId, integrationId })
  const change = (tenant: TestTenant, changes: IntegrationChanges, ifVersion?: number) =>
    platform.db.run(updateIntegration, {
      ...keyOf(tenant),
      actor: 'key_1',
      changes,
      ...(ifVersion !== undefined && { ifVersion }),
    })

  test('has defaults for everything that was not said', async () => {
    const tenant = await platform.addTenant()
    expect(await platform.db.run(getIntegration, keyOf(tenant))).toMatchObject({
      object: 'integration',
      name: 'Support',
      defaultAgent: 'CEO',
      textOnlyMode: false,
      memberAllowancesEnabled: false,
      defaultAllowance: { messages: null, period: 'month', timeZone: 'UTC', maxConcurrentRuns: 10 },
      onDisconnect: 'continue',
      chatBinding: 'none',
      runTimeoutSeconds: 1800,
      maxTurns: 50,
      retentionDays: null,
      storage: { quotaBytes: 5_368_709_120, usedBytes: 0, fileCount: 0 },
      status: 'active',
      version: 1,
    })
  })

  test('a change touches what it names and counts the version; a stale version is refused', async () => {
    const tenant = await platform.addTenant({ description: 'old', maxTurns: 7 })
    const changed = await change(tenant, { description: null, textOnlyMode: true, status: 'disabled' }, 1)
    expect(changed).toMatchObject({
      description: null,
      textOnlyMode: true,
      status: 'disabled',
      maxTurns: 7,
      version: 2,
    })
    expect(await codeOf(change(tenant, { name: 'x' }, 1))).toBe('version_conflict')
    const [audit] =
      await platform.rows(`SELECT action, actor, details FROM audit_log WHERE owner_id = '${tenant.ownerId}'
      ORDER BY id DESC LIMIT 1`)
    expect(audit).toMatchObject({ action: 'integration.updated', actor: 'key_1' })
  })

  test('of two changes to the same version exactly one wins', async () => {
    const tenant = await platform.addTenant()
    const codes = await Promise.all(['a', 'b'].map((name) => codeOf(change(tenant, { name }, 1))))
    expect(new Set(codes)).toEqual(new Set(['fine', 'version_conflict']))
  })

  test('a running run keeps the settings that it was admitted with', async () => {
    const tenant = await platform.addTenant({ maxTurns: 7 })
    const before = await tenant.admit()
    await change(tenant, { maxTurns: 9, textOnlyMode: true })
    expect(before.settings.maxTurns).toBe(7)
    expect(await tenant.admit()).toMatchObject({ textOnly: true, settings: { maxTurns: 9 } })
  })

  test('is not deleted under its runs, unless they are to be cancelled', async () => {
    const tenant = await platform.addTenant()
    const { run } = await tenant.admit()
    const remove = (cancelRuns: boolean) =>
      platform.db.run(deleteIntegration, { ...keyOf(tenant), actor: 'key_1', cancelRuns })
    expect(await codeOf(remove(false))).toBe('runs_active')
    expect(await remove(true)).toEqual({ cancelling: [{ runId: run.runId, bootId: platform.bootId }] })
    expect(await platform.db.run(beatReplica, platform.bootId)).toMatchObject({
      alive: true,
      cancels: expect.arrayContaining([{ ownerId: tenant.ownerId, runId: run.runId, mode: 'immediate' }]),
    })
    expect(await codeOf(platform.db.run(getIntegration, keyOf(tenant)))).toBe('integration_not_found')
    expect(await codeOf(tenant.admit())).toBe('integration_not_found')
  })

  test("another owner's integration does not exist", async () => {
    const [tenant, stranger] = [await platform.addTenant(), await platform.addTenant()]
    const foreign = { ...stranger, integrationId: tenant.integrationId }
    expect(await codeOf(platform.db.run(getIntegration, keyOf(foreign)))).toBe('integration_not_found')
    expect(await codeOf(change(foreign, { name: 'mine' }))).toBe('integration_not_found')
    const page = await platform.db.run(listIntegrations, { ownerId: stranger.ownerId, limit: 10, after: null })
    expect(page.items.map((one) => one.apiIntegrationId)).toEqual([stranger.integrationId])
  })
})
