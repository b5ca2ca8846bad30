import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { branchChat } from '../chats/branch-chat.ts'
import { createChat, deleteChat, listChats } from '../chats/manage-chats.ts'
import { updateIntegration } from '../integrations/manage-integrations.ts'
import { appendEventChunk, readEventChunks } from '../run-records/event-chunks.ts'
import { putResponse } from '../run-records/response-records.ts'
import { answer, modelCall } from '../test-store.contract.ts'
import { useTenant, useTestStore } from '../use-test-store.contract.ts'
import { ENGINES } from './engines.contract.ts'
import { foldUsage } from '../usage/fold-usage.ts'
import { checkInvariants } from './invariants.contract.ts'
import { SWEEP_NAMES, sweepAllExpired, sweepExpired } from './sweep-expired.ts'

describe.each(ENGINES)('what is kept for a time, on %s', (engine) => {
  const platform = useTestStore(engine)
  const tenant = useTenant(platform)

  const sweep = async (): Promise<number> => {
    let swept = 0
    for (const name of SWEEP_NAMES) swept += await platform.db.run(sweepExpired, name)
    return swept
  }
  const age = (table: string, column: string, interval: string, where: string): Promise<unknown> =>
    platform.rows(`UPDATE ${table} SET ${column} = now() - interval '${interval}' WHERE ${where}`)
  const usedChat = async (): Promise<{ chatId: string; runId: string }> => {
    const admission = await tenant.admit()
    await tenant.finish(admission, { items: [answer('x')] })
    return admission.run
  }
  const chatIds = async (): Promise<string[]> => {
    const list = { ownerId: tenant.ownerId, integrationIds: null, limit: 100, after: null }
    return (await platform.db.run(listChats, list)).items.map((chat) => chat.chatId)
  }

  test('the event log of a run goes a day after its end', async () => {
    const admission = await tenant.admit()
    const { ownerId } = tenant
    const { runId } = admission.run
    const { bootId } = platform
    const chunk = (firstSeq: number, lastSeq: number) => ({ firstSeq, lastSeq, body: new Uint8Array([firstSeq]) })
    const append = (firstSeq: number, lastSeq: number) =>
      platform.db.run(appendEventChunk, { ownerId, runId, bootId, chunk: chunk(firstSeq, lastSeq) })
    const read = (afterSeq: number) => platform.db.run(readEventChunks, { ownerId, runId, afterSeq })
    expect([await append(1, 3), await append(4, 6), await append(4, 6)]).toEqual(['ok', 'ok', 'ok'])
    expect(await read(3)).toEqual([chunk(4, 6)])
    await tenant.finish(admission, { eventChunk: chunk(7, 9), lastEventSeq: 9 })
    expect(await append(10, 11)).toBe('fenced')
    expect(await read(0)).toEqual([chunk(1, 3), chunk(4, 6), chunk(7, 9)])
    await expect(
      platform.db.run(readEventChunks, { ownerId: (await platform.addTenant()).ownerId, runId, afterSeq: 0 }),
    ).rejects.toMatchObject({ code: 'run_not_found' })

    await age('runs', 'finished_at', '25 hours', `id = '${runId}'`)
    expect(await sweep()).toBe(3)
    expect(await read(0)).toEqual([])
  })

  test('an empty chat goes after 30 days; a busy one, a used one and a branch with messages stay', async () => {
    const { ownerId, integrationId } = tenant
    const { chatId: empty } = await platform.db.run(createChat, { ownerId, integrationId })
    const used = await tenant.admit()
    await tenant.finish(used, { items: [answer('x')] })
    const busy = await tenant.admit({ chatId: used.run.chatId })
    const dataKey = await platform.store.dataKeys.of(ownerId)
    const source = { ownerId, chatId: used.run.chatId, integrationIds: null }
    const copied = { beforeRunId: busy.run.runId, aliasChatId: null, dataKey }
    const branch = await platform.db.run(branchChat, { ...source, ...copied })
    await age('chats', 'created_at', '31 days', 'true')
    await sweep()
    const left = await chatIds()
    expect(left).toEqual(expect.arrayContaining([used.run.chatId, branch.chatId]))
    expect(left).not.toContain(empty)
  })

  test('content goes after the days that the integration keeps it, but not from under a run', async () => {
    const { ownerId, integrationId } = tenant
    const [old, busy] = [await tenant.admit(), await tenant.admit()]
    await tenant.finish(old, { items: [answer('x')] })
    await age('chats', 'updated_at', '40 days', `id IN ('${old.run.chatId}','${busy.run.chatId}')`)
    await sweep()
    expect(await chatIds()).toContain(old.run.chatId)
    await platform.db.run(updateIntegration, { ownerId, integrationId, actor: 'k', changes: { retentionDays: 30 } })
    await sweep()
    const left = await chatIds()
    expect(left).not.toContain(old.run.chatId)
    expect(left).toContain(busy.run.chatId)
    expect(await platform.rows(`SELECT 1 FROM messages WHERE chat_id = '${old.run.chatId}'`)).toEqual([])
  })

  test('a deleted chat is erased with all that it has attached, however much that is', async () => {
    const { ownerId } = tenant
    const { chatId, runId } = await usedChat()
    await platform.rows(`INSERT INTO message_attachments (id, owner_id, chat_id, run_id, message_seq, idx, kind, blob_sha256, state)
      SELECT 'att_' || n, '${ownerId}', '${chatId}', '${runId}', 1, 0, 'input_image', '\\x00', 'ok' FROM generate_series(1, 600) n`)
    await platform.db.run(deleteChat, { ownerId, chatId, integrationIds: null, actor: 'key' })

    for (let turn = 0; turn < 3; turn++) await sweep()

    expect(await platform.rows(`SELECT 1 FROM message_attachments WHERE chat_id = '${chatId}'`)).toEqual([])
    expect(await sweep()).toBe(0)
  })

  test('of a deleted chat nothing is kept of what was said, in responses and in calls that waited for a person either', async () => {
    const { ownerId } = tenant
    const [gone, kept] = [await usedChat(), await usedChat()]
    for (const { runId } of [gone, kept]) {
      await platform.db.run(putResponse, { ownerId, runId, afterSeq: 0, record: { inputItems: ['Hello'] } })
      await platform.rows(`INSERT INTO run_approvals (run_id, owner_id, agent_run_id, call_id, place, tool, arguments, agent, edit,
        expires_at, approve, decided_by, decided_at) VALUES ('${runId}', '${ownerId}', 'a', 'c', 0, 't', '{"secret":1}', 'CEO', false,
        now(), true, 'key', now())`)
    }
    await platform.db.run(deleteChat, { ownerId, chatId: gone.chatId, integrationIds: null, actor: 'key' })

    await sweep()

    const left = `SELECT run_id FROM responses UNION ALL SELECT run_id FROM run_approvals`
    expect(await platform.rows(left)).toEqual([{ run_id: kept.runId }, { run_id: kept.runId }])
    expect(await platform.rows(`SELECT next_seq::int FROM chats WHERE id = '${gone.chatId}'`)).toEqual([
      { next_seq: 1 },
    ])
  })

  test('more than a batch goes as well', async () => {
    await platform.rows(`INSERT INTO idempotency_keys (owner_id, api_key_id, route, key, claim, fingerprint, expires_at)
      SELECT '${tenant.ownerId}', 'key_1', 'r', n::text, 'c', 'f', now() - interval '1 hour' FROM generate_series(1, 1200) n`)
    await sweepAllExpired(platform.db)
    expect(await platform.rows('SELECT 1 FROM idempotency_keys')).toEqual([])
  })

  test('runs and their usage go after 400 days; processes and delivered announcements after seven', async () => {
    const owner = await platform.addTenant()
    const admission = await owner.admit()
    const { runId } = admission.run
    await owner.finish(admission, { calls: [modelCall(1)] })
    await age('runs', 'finished_at', '401 days', `id = '${runId}'`)
    await platform.db.run(foldUsage, undefined)
    await age('usage_quarter_days', 'begins_at', '403 days', `owner_id = '${owner.ownerId}'`)
    await age('usage_half_hours', 'begins_at', '402 days', `owner_id = '${owner.ownerId}'`)
    await age('usage_consumer_days', 'day', '403 days', `owner_id = '${owner.ownerId}'`)
    await age('outbox', 'done_at', '8 days', `run_id = '${runId}'`)
    const gone = await platform.addReplica()
    await age('replicas', "state = 'gone', heartbeat_at", '8 days', `boot_id = '${gone}'`)
    await sweep()
    expect(
      await platform.rows(`SELECT id FROM runs WHERE id = '${runId}' UNION ALL SELECT run_id FROM outbox
      WHERE run_id = '${runId}' UNION ALL SELECT boot_id FROM replicas WHERE boot_id = '${gone}'`),
    ).toEqual([])
    expect(await platform.db.run(checkInvariants, { settled: true })).toEqual([])
    expect(await sweep()).toBe(0)
  })

  test('of chats that were never used no row stays, whoever deletes them', async () => {
    const { ownerId, integrationId } = tenant
    const [{ chatId: left }, { chatId: deleted }] = [
      await platform.db.run(createChat, { ownerId, integrationId }),
      await platform.db.run(createChat, { ownerId, integrationId }),
    ]
    await platform.db.run(deleteChat, { ownerId, chatId: deleted, integrationIds: null, actor: 'key' })
    await age('chats', 'created_at', '31 days', `id IN ('${left}','${deleted}')`)

    await sweep()

    expect(await platform.rows(`SELECT id FROM chats WHERE id IN ('${left}','${deleted}')`)).toEqual([])
  })

  test('uploads that became no file go seven days after their hour; what is awaited, and what is there, stays', async () => {
    const { ownerId, integrationId } = tenant
    const states = ['pending', 'ready', 'expired', 'deleted']
    await platform.rows(`INSERT INTO uploads (id, owner_id, integration_id, name, path, declared_bytes, token_hash, state, expires_at)
      SELECT s, '${ownerId}', '${integrationId}', 'n', s, 1, 't', s, now() - interval '8 days'
      FROM unnest(ARRAY['${states.join("','")}']) s`)

    await sweep()

    expect(await platform.rows('SELECT state FROM uploads ORDER BY state')).toEqual([
      { state: 'pending' },
      { state: 'ready' },
    ])
  })

  test('who changed what is known for seven years, longer than the runs that it was about', async () => {
    const owner = await platform.addTenant()
    await platform.rows(`INSERT INTO audit_log (owner_id, actor, action, target, created_at) VALUES
      ('${owner.ownerId}', 'key', 'chat.deleted', 'old', now() - interval '7 years 1 day'),
      ('${owner.ownerId}', 'key', 'chat.deleted', 'young', now() - interval '6 years 11 months')`)

    await sweep()

    const targets = `SELECT target FROM audit_log WHERE owner_id = '${owner.ownerId}' AND action = 'chat.deleted'`
    expect(await platform.rows(targets)).toEqual([{ target: 'young' }])
  })

  test('nothing is swept before its time', async () => {
    const owner = await platform.addTenant({ retentionDays: 30 })
    const { ownerId, integrationId } = owner
    const admission = await owner.admit()
    const { runId, chatId } = admission.run
    const calls = [modelCall(1)]
    const eventChunk = { firstSeq: 1, lastSeq: 3, body: new Uint8Array([1]) }
    await owner.finish(admission, { items: [answer('x')], calls, eventChunk, lastEventSeq: 3 })
    const { chatId: empty } = await platform.db.run(createChat, { ownerId, integrationId })
    await platform.db.run(foldUsage, undefined)
    const gone = await platform.addReplica()
    await platform.rows(`INSERT INTO idempotency_keys (owner_id, api_key_id, route, key, claim, fingerprint, expires_at)
      VALUES ('${ownerId}', 'key_1', 'r', 'k', 'c', 'f', now() + interval '1 minute')`)
    await platform.rows(`INSERT INTO leases (owner_id, name, holder, expires_at)
      VALUES ('${ownerId}', 'l', 'h', now() - interval '59 minutes')`)
    await platform.rows(
      `INSERT INTO webhook_endpoints (id, owner_id, url, events, secret_enc) VALUES ('whk_1', '${ownerId}', 'u', '{}', '')`,
    )
    await platform.rows(`INSERT INTO webhook_deliveries (endpoint_id, event_id, owner_id, topic, payload, announced_at, state, done_at)
      VALUES ('whk_1', 'evt_1', '${ownerId}', 't', '{}', now(), 'delivered', now() - interval '6 days')`)
    await platform.rows(`INSERT INTO push_configs (run_id, id, owner_id, url, secret_enc, closed_at)
      VALUES ('${runId}', 'p', '${ownerId}', 'u', '', now() - interval '6 days')`)
    await age('outbox', 'done_at', '6 days', `run_id = '${runId}'`)
    await age('replicas', "state = 'gone', heartbeat_at", '6 days', `boot_id = '${gone}'`)
    await age('chats', 'created_at', '29 days', `id = '${empty}'`)
    await age('chats', 'updated_at', '29 days', `id = '${chatId}'`)
    await age('runs', 'finished_at', '23 hours', `id = '${runId}'`)
    expect(await sweep()).toBe(0)

    await platform.rows(`DELETE FROM run_event_chunks WHERE run_id = '${runId}'`)
    await platform.rows(`DELETE FROM idempotency_keys WHERE owner_id = '${ownerId}'`)
    await age('runs', 'finished_at', '399 days', `id = '${runId}'`)
    await age('usage_quarter_days', 'begins_at', '401 days', `owner_id = '${ownerId}'`)
    await age('usage_half_hours', 'begins_at', '400 days', `owner_id = '${ownerId}'`)
    await age('usage_consumer_days', 'day', '401 days', `owner_id = '${ownerId}'`)
    expect(await sweep()).toBe(0)
  })

  test('an unknown sweep is a defect', async () => {
    await expect(platform.db.run(sweepExpired, 'everything')).rejects.toThrow('there is no sweep everything')
  })
})

describe.runIf(ENGINES.includes('postgres'))('what somebody is renewing', () => {
  const platform = useTestStore('postgres')
  const tenant = useTenant(platform, { retentionDays: 30 })
  let renewer: Client
  beforeAll(async () => {
    renewer = new Client({ connectionString: platform.url })
    await renewer.connect()
  })
  afterAll(() => renewer.end())

  const addChat = (): Promise<unknown> =>
    platform.rows(`INSERT INTO chats (id, owner_id, integration_id, created_at, updated_at) VALUES
      ('chat_' || gen_random_uuid(), '${tenant.ownerId}', '${tenant.integrationId}', now() - interval '40 days', now() - interval '40 days')`)
  const addKey = (): Promise<unknown> =>
    platform.rows(`INSERT INTO idempotency_keys (owner_id, api_key_id, route, key, claim, fingerprint, expires_at)
      VALUES ('${tenant.ownerId}', 'key_1', 'r', 'k', 'c', 'f', now() - interval '1 hour')`)
  const addLease = (): Promise<unknown> =>
    platform.rows(`INSERT INTO leases (owner_id, name, holder, expires_at)
      VALUES ('${tenant.ownerId}', 'l', 'h', now() - interval '2 hours')`)

  test.each([
    ['emptyChats', addChat, "chats SET last_run_id = 'run_1', next_seq = 2"],
    ['expiredChats', addChat, 'chats SET updated_at = now()'],
    ['idempotencyKeys', addKey, "idempotency_keys SET expires_at = now() + interval '1 day'"],
    ['leases', addLease, "leases SET expires_at = now() + interval '15 seconds'"],
  ])('is neither swept nor waited for: %s', async (name, addExpired, renewal) => {
    await addExpired()
    await renewer.query(`BEGIN; UPDATE ${renewal}`)
    expect(await platform.db.run(sweepExpired, name)).toBe(0)
    await renewer.query('ROLLBACK')
    expect(await platform.db.run(sweepExpired, name)).toBe(1)
  })
})
