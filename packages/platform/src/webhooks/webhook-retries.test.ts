import { RECEIVER_TIMEOUT_MS } from '@bureau/runtime'
import { afterEach, describe, expect, test } from 'vitest'
import { ENGINES } from '../db/engines.contract.ts'
import { useTestStore } from '../use-test-store.contract.ts'
import { putPushConfig, settleNotification, takeNotifications } from './push-configs.ts'
import { createWebhookEndpoint } from './webhook-endpoints.ts'
import { fanOutAnnouncements, settleDelivery, takeDeliveries, type TakenDelivery } from './webhook-retries.ts'

describe.each(ENGINES)('what is delivered by one of several processes, on %s', (engine) => {
  const platform = useTestStore(engine)
  afterEach(async () => {
    for (const table of ['webhook_deliveries', 'push_configs']) await platform.rows(`DELETE FROM ${table}`)
  })

  /** The delivery of the end of a run, to an endpoint of its owner. */
  async function addDelivery(): Promise<{ take: () => Promise<TakenDelivery>; state: () => Promise<object> }> {
    const { ownerId, ...tenant } = await platform.addTenant()
    const dataKey = await platform.store.dataKeys.of(ownerId)
    const endpoint = { url: 'https://hooks.example.com/', events: ['run.completed'], status: 'enabled' } as const
    const made = { ...endpoint, ownerId, actor: 'key', secret: 'whsec_', dataKey }
    const { id } = await platform.db.run(createWebhookEndpoint, made)
    await tenant.finish(await tenant.admit())
    await platform.db.run(fanOutAnnouncements, undefined)
    const take = async () => {
      const { taken } = await platform.db.run(takeDeliveries, undefined)
      return taken.find(({ endpointId }) => endpointId === id)!
    }
    const state = async () => {
      const [row] = await platform.rows(`SELECT d.state, d.done_at IS NOT NULL AS "isDone", d.response_status AS status,
        e.failing_since IS NOT NULL AS "isFailing" FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id
        WHERE e.id = '${id}'`)
      return row!
    }
    return { take, state }
  }

  /** The notification of the end of a run. */
  async function addNotification(): Promise<void> {
    const { ownerId, ...tenant } = await platform.addTenant()
    const admission = await tenant.admit()
    const config = { ownerId, runId: admission.run.runId, id: 'push', url: 'https://a.example.com/', scheme: null }
    await platform.db.run(putPushConfig, { ...config, secretEnc: new Uint8Array([1]) })
    await tenant.finish(admission)
  }

  const settle = (taken: TakenDelivery, responseStatus: number | null) =>
    platform.db.run(settleDelivery, { ...taken, delivered: responseStatus === 204, responseStatus })

  test.each([
    ['webhook', 'webhook_deliveries', addDelivery, () => platform.db.run(takeDeliveries, undefined)],
    ['notification', 'push_configs', addNotification, () => platform.db.run(takeNotifications, undefined)],
  ] as const)('a %s is left to the process that has taken it until its attempt is over', async (...given) => {
    const [, table, add, takeDue] = given
    await add()
    const [before] = await platform.rows('SELECT now()::text AS at')

    expect((await takeDue()).taken).toHaveLength(1)

    const over = `'${String(before!['at'])}'::timestamptz + interval '${RECEIVER_TIMEOUT_MS} milliseconds'`
    expect(await platform.rows(`SELECT 1 FROM ${table} WHERE next_at <= ${over}`)).toEqual([])
  })

  test('a delivery that has failed comes again after five seconds', async () => {
    const { take, state } = await addDelivery()

    await settle(await take(), 500)

    expect(
      await platform.rows(`SELECT 1 FROM webhook_deliveries WHERE next_at > now() + interval '5.1 seconds'`),
    ).toEqual([])
    expect(await state()).toEqual({ state: 'pending', isDone: false, status: 500, isFailing: true })
  })

  test('a notification that has failed comes again after five seconds', async () => {
    await addNotification()
    const [taken] = (await platform.db.run(takeNotifications, undefined)).taken

    await platform.db.run(settleNotification, { ...taken!, delivered: false, isGone: false })

    expect(await platform.rows(`SELECT 1 FROM push_configs WHERE next_at > now() + interval '5.1 seconds'`)).toEqual([])
  })

  test('a delivery that was taken again counts as the last attempt has it, in whatever order they are settled', async () => {
    const { take, state } = await addDelivery()
    const slow = await take()
    await platform.rows('UPDATE webhook_deliveries SET next_at = now()')
    const again = await take()

    await settle(slow, null)
    expect(await state()).toEqual({ state: 'pending', isDone: false, status: null, isFailing: false })
    await settle(again, 204)
    await settle(slow, null)

    expect(await state()).toEqual({ state: 'delivered', isDone: true, status: 204, isFailing: false })
  })

  test('what an endpoint that fails has missed keeps nobody else waiting', async () => {
    const failing = await addDelivery()
    await settle(await failing.take(), 500)
    await platform.rows(`INSERT INTO webhook_deliveries (endpoint_id, event_id, owner_id, topic, payload, announced_at, next_at)
      SELECT endpoint_id, 'evt_' || n, owner_id, topic, payload, announced_at, now() - interval '1 hour'
      FROM webhook_deliveries, generate_series(1, 100) n`)

    const { take } = await addDelivery()

    expect(await take()).toBeDefined()
  })

  test('a delivery is settled once', async () => {
    const { take, state } = await addDelivery()
    const taken = await take()

    await settle(taken, 204)
    await settle(taken, null)

    expect(await state()).toEqual({ state: 'delivered', isDone: true, status: 204, isFailing: false })
  })
})
