import { randomUUID } from 'node:crypto'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { adjustAllowance } from '../members/adjust-allowance.ts'
import { newId } from '../ids.ts'
import { oncePerKey } from '../idempotency/once-per-key.ts'
import { createFirstApiKey } from '../api-keys/create-api-key.ts'
import { pushSecretPlace, putPushConfig } from '../webhooks/push-configs.ts'
import { putResponse } from '../run-records/response-records.ts'
import { recordStep } from '../run-records/record-step.ts'
import { appendEventChunk } from '../run-records/event-chunks.ts'
import { findSecret, putSecret } from '../security/secrets.ts'
import { seal } from '../security/seal.ts'
import { takeLease } from '../oauth/leases.ts'
import { reserveUpload } from '../uploads/manage-uploads.ts'
import { equipStore } from '../platform-store.ts'
import { addTenant, answer, modelCall, type TestTenant } from '../test-store.contract.ts'
import { type TestStore, useTestStore } from '../use-test-store.contract.ts'
import { ENGINES, queryRows, queryRowsAs, SERVER } from './engines.contract.ts'
import type { DatabaseError } from './database.ts'
import { foldUsage } from '../usage/fold-usage.ts'
import { openDatabase } from './open-database.ts'
import { revokeConsumerTokens } from '../consumer-tokens/consumer-tokens.repo.ts'
import { insertReplica } from '../runs/recover/replicas.repo.ts'

describe.each(ENGINES)('isolation of owners on %s', (engine) => {
  const platform = useTestStore(engine)
  let ada: TestTenant
  let bob: TestTenant
  let tables: string[]
  beforeAll(async () => {
    ada = await fill(platform)
    bob = await platform.addTenant()
    const named = await platform.rows(`SELECT c.table_name AS name FROM information_schema.columns c
      WHERE c.table_schema = current_schema() AND c.column_name = 'owner_id' AND c.table_name NOT LIKE 'v_%' ORDER BY 1`)
    tables = named.map((row) => String(row['name']))
  })

  test('every table with an owner has forced row level security and a policy for tenants', async () => {
    const guarded =
      await platform.rows(`SELECT c.relname AS name FROM pg_class c JOIN pg_policies p ON p.tablename = c.relname
      AND p.schemaname = current_schema() AND p.policyname = 'tenant' AND p.roles = '{platform_tenant}'
      WHERE c.relnamespace = current_schema()::regnamespace AND c.relrowsecurity AND c.relforcerowsecurity ORDER BY 1`)
    expect(guarded.map((row) => row['name'])).toEqual(tables)
    expect(tables).toHaveLength(29)
  })

  test('an owner sees the own rows and no others, in every table', async () => {
    const counts = tables
      .map((table) => `SELECT '${table}' AS name, count(*)::int AS n FROM ${table}`)
      .join(' UNION ALL ')
    const seenBy = async ({ ownerId }: TestTenant) => {
      const rows = await platform.db.run(queryRowsAs, { ownerId, query: counts })
      return rows.filter((row) => Number(row['n']) > 0).map((row) => row['name'])
    }
    expect(new Set(await seenBy(ada))).toEqual(new Set(tables.filter((table) => !table.startsWith('webhook_'))))
    expect(new Set(await seenBy(bob))).toEqual(new Set(['integrations', 'audit_log']))
  })

  test('an owner cannot change, take over or remove what belongs to another', async () => {
    const { ownerId } = bob
    for (const table of tables.filter((name) => name !== 'allowance_ledger' && name !== 'audit_log')) {
      const changed = await platform.db.run(queryRowsAs, {
        ownerId,
        query: `WITH x AS (UPDATE ${table} SET owner_id = '${ownerId}' WHERE owner_id <> '${ownerId}' RETURNING 1) SELECT * FROM x`,
      })
      const removed = await platform.db.run(queryRowsAs, {
        ownerId,
        query: `WITH x AS (DELETE FROM ${table} WHERE owner_id <> '${ownerId}' RETURNING 1) SELECT * FROM x`,
      })
      expect([changed, removed]).toEqual([[], []])
    }
    const smuggled = platform.db.run(queryRowsAs, {
      ownerId,
      query: `INSERT INTO chats (id, owner_id, integration_id) VALUES ('chat_x', '${ada.ownerId}', '${ada.integrationId}')`,
    })
    await expect(smuggled).rejects.toMatchObject({ sqlstate: '42501' })
  })

  test('ledger and audit log cannot be changed or shortened by an owner, not even the own ones', async () => {
    for (const table of ['allowance_ledger', 'audit_log']) {
      const args = { ownerId: ada.ownerId, query: `DELETE FROM ${table}` }
      await expect(platform.db.run(queryRowsAs, args)).rejects.toMatchObject({ sqlstate: '42501' })
    }
  })

  // Even code that forgets the owner, with all rights, cannot tie a row of one owner to a row of another.
  test('the database refuses rows that connect two owners', async () => {
    const [own] = [`'${bob.ownerId}'`]
    const of = async (table: string, column = 'id') => {
      const [row] = await platform.rows(
        `SELECT ${column} AS id FROM ${table} WHERE owner_id = '${ada.ownerId}' LIMIT 1`,
      )
      return `'${String(row?.['id'])}'`
    }
    const [chat, run, member] = [await of('chats'), await of('runs'), await of('members')]
    const integration = `'${ada.integrationId}'`
    const statements = [
      `INSERT INTO members (id, owner_id, integration_id, consumer_id) VALUES ('m', ${own}, ${integration}, 'x')`,
      `INSERT INTO chats (id, owner_id, integration_id) VALUES ('c', ${own}, ${integration})`,
      `INSERT INTO messages (chat_id, seq, owner_id, run_id, id, role, item) VALUES (${chat}, 99, ${own}, ${run}, 'x', 'user', '{}')`,
      `INSERT INTO message_attachments (id, owner_id, chat_id, run_id, message_seq, idx, kind, blob_sha256)
        VALUES ('a', ${own}, ${chat}, ${run}, 1, 0, 'input_file', 'x')`,
      `INSERT INTO allowance_periods (member_id, period_start, period_end, owner_id) VALUES (${member}, '2001-01-01', '2001-01-02', ${own})`,
      `INSERT INTO allowance_ledger (owner_id, member_id, period_start, kind, dedupe_key, occurred_at)
        VALUES (${own}, ${member}, '2001-01-01', 'grant', 'k', '2001-01-01')`,
      `INSERT INTO usage_entries (run_id, call_seq, owner_id, agent, model, priced, input_tokens, output_tokens)
        VALUES (${run}, 99, ${own}, 'a', 'm', true, 0, 0)`,
      `INSERT INTO run_states SELECT id, ${own}, 1, '{}' FROM runs WHERE state = 'completed'`,
      `INSERT INTO push_configs (run_id, id, owner_id, url, secret_enc) VALUES (${run}, 'x', ${own}, 'x', 'x')`,
      `INSERT INTO run_event_chunks (run_id, first_seq, last_seq, owner_id, body) VALUES (${run}, 99, 99, ${own}, 'x')`,
      `INSERT INTO consumer_token_cutoffs (owner_id, integration_id, consumer_id, not_before)
        VALUES (${own}, ${integration}, 'x', now())`,
      `INSERT INTO uploads (id, owner_id, integration_id, name, path, declared_bytes, token_hash, expires_at)
        VALUES ('u', ${own}, ${integration}, 'n', '/p', 1, 'x', now())`,
      `INSERT INTO runs (id, owner_id, integration_id, chat_id, fingerprint, agent, text_only, state, boot_id, input, deadline_at)
        VALUES ('r', ${own}, '${bob.integrationId}', ${chat}, 'f', 'a', false, 'reserved', 'b', '{}', now())`,
      `UPDATE mount_usage SET owner_id = ${own} WHERE integration_id = ${integration}`,
    ]
    for (const statement of statements) {
      const refusal = await platform.db.run(queryRows, statement).catch((error: DatabaseError) => error.sqlstate)
      expect([statement, refusal]).toEqual([statement, '23503'])
    }
  })

  test("a secret is found by its owner alone, and cannot be read in another owner's place", async () => {
    const name = { scope: 'oauth', name: 'user-1/github' }
    const dataKey = await platform.store.dataKeys.of(ada.ownerId)
    expect(await platform.db.run(findSecret, { ...name, ownerId: ada.ownerId, dataKey })).toBe('token-canary')
    expect(await platform.db.run(findSecret, { ...name, ownerId: bob.ownerId, dataKey })).toBeUndefined()
    await platform.rows(`INSERT INTO secrets (id, owner_id, scope, name, ciphertext)
      SELECT 'sec_copy', '${bob.ownerId}', scope, name, ciphertext FROM secrets WHERE owner_id = '${ada.ownerId}'`)
    const copied = platform.db.run(findSecret, { ...name, ownerId: bob.ownerId, dataKey })
    await expect(copied).rejects.toThrow('sealed for another place')
  })

  test('secrets stand nowhere in plain text', async () => {
    for (const { name } of tables.map((table) => ({ name: table }))) {
      const rows = await platform.rows(`SELECT t::text AS everything FROM ${name} t`)
      expect(JSON.stringify(rows)).not.toContain('canary')
    }
  })
})

/** An owner with rows in every table. */
async function fill(platform: TestStore): Promise<TestTenant> {
  const { store, db, bootId } = platform
  const tenant = await platform.addTenant({ memberAllowancesEnabled: true })
  const { ownerId, integrationId } = tenant
  await createFirstApiKey(store.keyIssuer, ownerId, { name: 'key' })
  await tenant.addMember('u')
  const url = 'https://files.example.com/r.pdf?sig=canary'
  const admission = await tenant.admit({
    consumerId: 'u',
    usageRequestId: 'one',
    userContext: { secret: 'canary' },
    attachments: [{ kind: 'input_file', filename: null, detail: null, source: { url } }],
  })
  const { runId } = admission.run
  const chunk = { firstSeq: 1, lastSeq: 2, body: new Uint8Array([1]) }
  await db.run(appendEventChunk, { ownerId, runId, bootId, chunk })
  await tenant.finish(admission, { items: [answer('x')], calls: [modelCall(1)] })
  await db.run(foldUsage, undefined)
  await tenant.finish(await tenant.admit({ consumerId: 'u', usageRequestId: 'two' }), { calls: [modelCall(1)] })
  const working = await tenant.admit({ consumerId: 'u', usageRequestId: 'three' })
  await tenant.start(working)
  const step = { items: [], calls: [], version: 1, state: '{}' }
  await db.run(recordStep, { ownerId, runId: working.run.runId, bootId, ...step })
  await db.run(queryRowsAs, {
    ownerId,
    query: `INSERT INTO run_approvals (run_id, owner_id, agent_run_id, call_id, place, tool, arguments, agent, edit, expires_at)
      VALUES ('${working.run.runId}', '${ownerId}', 'agent_run_1', 'call_1', 0, 'refund', '{}', 'CEO', false, now())`,
  })
  const response = { ownerId, runId: working.run.runId, afterSeq: 0, record: {} }
  await db.run(putResponse, response)
  const pushKey = { ownerId, runId: working.run.runId, id: 'p' }
  const secretEnc = seal(await store.dataKeys.of(ownerId), pushSecretPlace(pushKey), 'token-canary')
  await db.run(putPushConfig, { ...pushKey, url: 'https://a.example.com/', scheme: null, secretEnc })
  const upload = {
    ownerId,
    integrationId,
    uploadId: newId('upl'),
    name: 'a',
    bytes: 1,
    contentType: null,
    sha256: null,
  }
  await db.run(reserveUpload, { ...upload, deployed: ['shop'], tokenHash: new Uint8Array(32) })
  const dataKey = await store.dataKeys.of(ownerId)
  await db.run(putSecret, { ownerId, scope: 'oauth', name: 'user-1/github', dataKey, secret: 'token-canary' })
  const revoked = { integrationId: tenant.integrationId, consumerId: 'u', actor: 'x', notBefore: new Date(0) }
  await db.run(revokeConsumerTokens, { ownerId, ...revoked })
  await db.run(takeLease, { ownerId, name: 'n', holder: 'h' })
  const work = () => Promise.resolve({ status: 200, body: 'canary' })
  const refuse = () => ({ status: 400, body: null })
  await oncePerKey(store, { ownerId, apiKeyId: 'key_1', route: 'r', key: 'k' }, {}, { work, refuse, shownOnce: [] })
  const adjustment = { kind: 'grant', messages: 1, note: 'n' } as const
  const adjusting = {
    ownerId,
    integrationId,
    consumerId: 'u',
    actor: 'key',
    idempotencyKey: 'k',
    fingerprint: new Uint8Array(1),
  }
  await db.run(adjustAllowance, { ...adjusting, adjustment })
  return tenant
}

// A hosted PostgreSQL gives out no superuser: then the owner of the tables is bound by the policies as well.
describe.runIf(ENGINES.includes('postgres'))('PostgreSQL with an ordinary role', () => {
  const role = `test_${randomUUID().replaceAll('-', '')}`
  const url = new URL(SERVER)
  const administer = async (statements: string): Promise<void> => {
    const client = new Client({ connectionString: SERVER })
    await client.connect()
    try {
      await client.query(statements)
    } finally {
      await client.end()
    }
  }
  beforeAll(async () => {
    await administer(
      `CREATE ROLE ${role} LOGIN CREATEROLE PASSWORD '${role}'; CREATE SCHEMA ${role} AUTHORIZATION ${role}`,
    )
    url.username = role
    url.password = role
    url.searchParams.set('options', `-c search_path=${role}`)
  })
  afterAll(() => administer(`DROP SCHEMA ${role} CASCADE; DROP OWNED BY ${role}; DROP ROLE ${role}`))

  test('works, and shows nothing to a connection that says neither owner nor system', async () => {
    const db = await openDatabase(url.href)
    const store = await equipStore(db, { masterKey: new Uint8Array(32), issuer: 'https://test.example' })
    const bootId = newId('boot')
    await db.run(insertReplica, { bootId, version: 'test', lockId: null })
    const tenant = await addTenant(store, bootId)
    const admission = await tenant.admit()
    await tenant.finish(admission)
    expect(await db.run(queryRows, 'SELECT state FROM runs')).toEqual([{ state: 'completed' }])
    await db.close()

    const client = new Client({ connectionString: url.href })
    await client.connect()
    expect((await client.query('SELECT * FROM runs')).rows).toEqual([])
    await client.end()
  })
})
