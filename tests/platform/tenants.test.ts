import { ROUTES } from '@bureau/platform/testing'
import { beforeAll, describe, expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import type { Answer, TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

type Ids = Readonly<Record<'integrationId' | 'chatId' | 'runId' | 'consumerId' | 'keyId' | 'endpointId', string>>

const NOTHING = '0'.repeat(26)
const MISSING: Ids = {
  integrationId: `int_${NOTHING}`,
  chatId: `chat_${NOTHING}`,
  runId: `run_${NOTHING}`,
  consumerId: 'nobody',
  keyId: `key_${NOTHING}`,
  endpointId: `whk_${NOTHING}`,
}

/** A valid body for every route that takes one. A new route needs a line here. */
const BODIES: Readonly<Record<string, (ids: Ids) => unknown>> = {
  getCompletionV2: (ids) => ({ apiIntegrationId: ids.integrationId, message: 'Hi' }),
  createNewChat: (ids) => ({ apiIntegrationId: ids.integrationId }),
  create_agency_upload: (ids) => ({ apiIntegrationId: ids.integrationId, name: 'a.txt', size: 1 }),
  cancelRun: () => ({ waitMs: 0 }),
  updateChat: () => ({ title: 'Mine now' }),
  registerMember: () => ({ consumerId: 'u-9' }),
  registerMembers: () => ({ members: [{ consumerId: 'u-9' }] }),
  updateMember: () => ({ status: 'inactive' }),
  setAllowance: () => ({ messages: 1 }),
  adjustAllowance: () => ({ kind: 'grant', messages: 1, note: 'x' }),
  createIntegration: () => ({ name: 'x', agencyId: 'shop' }),
  updateIntegration: () => ({ name: 'Mine now' }),
  createApiKey: (ids) => ({ name: 'x', integrationIds: [ids.integrationId] }),
  rotateApiKey: () => ({}),
  createWebhookEndpoint: () => ({ url: 'https://hooks.example.com/x', events: ['run.failed'] }),
  updateWebhookEndpoint: () => ({ status: 'disabled' }),
}

/** The query of routes that need one, or that name something of a tenant in it. */
const QUERIES: Readonly<Record<string, (ids: Ids) => string>> = {
  findChatStatus: (ids) => `?apiIntegrationId=${ids.integrationId}&usageRequestId=r-1`,
  listChats: (ids) => `?apiIntegrationId=${ids.integrationId}`,
  listRuns: (ids) => `?apiIntegrationId=${ids.integrationId}&chatId=${ids.chatId}`,
  listUsageRecords: (ids) => `?apiIntegrationId=${ids.integrationId}`,
  summarizeUsage: (ids) => `?groupBy=day&apiIntegrationId=${ids.integrationId}`,
  exportUsage: (ids) => `?format=jsonl&apiIntegrationId=${ids.integrationId}`,
  getFileContent: () => '?path=/app/mnt/a.txt',
  deleteFile: () => '?path=/app/mnt/a.txt',
}

/** What a route says of a tenant: in its path, its body or its query. */
const named = ROUTES.filter(({ id, url, scope }) => {
  const inBody = BODIES[id]?.(MISSING) ?? {}
  return scope !== null && (url.includes(':') || QUERIES[id] || JSON.stringify(inBody).includes(NOTHING))
})

describe.each(ENGINES)('what belongs to somebody else on %s', (engine) => {
  const platform = servePlatform(engine)
  let mine: TestClient
  let own: Ids
  let foreign: Ids

  beforeAll(async () => {
    platform.provider.respond(() => text('Hello.'))
    ;[mine, own] = await addTenant()
    foreign = (await addTenant())[1]
  })

  async function addTenant(): Promise<[TestClient, Ids]> {
    const client = await platform.client()
    const { integrationId } = client
    const { stream } = await client.completeWhole({ usageRequestId: 'r-1' })
    const consumerId = `u-${client.ownerId}`
    await client.post(`/v1/integrations/${integrationId}/members`, { consumerId })
    const key = await client.post('/v1/api_keys', { name: 'second' })
    const hook = await client.post('/v1/webhook_endpoints', BODIES['createWebhookEndpoint']!(MISSING))
    const ids = {
      integrationId,
      chatId: stream.chatId,
      runId: stream.runId,
      consumerId,
      keyId: key.body.id,
      endpointId: hook.body.id,
    }
    return [client, ids]
  }

  /** The answer without what differs from one request to the next. */
  async function ask(route: (typeof ROUTES)[number], ids: Ids): Promise<unknown> {
    const path = route.url.replaceAll(/:(\w+)/g, (_, name: keyof Ids) => ids[name])
    const headers = { 'idempotency-key': `k-${Math.random()}` }
    const body = BODIES[route.id]?.(ids)
    const answer: Answer = await mine.call(route.method, path + (QUERIES[route.id]?.(ids) ?? ''), body, { headers })
    const { requestId: _, ...rest } = { requestId: '', ...(answer.body as object | undefined) }
    return { status: answer.status, body: rest, text: answer.body === undefined ? answer.text : '' }
  }

  test('every route with a body or a needed query has its line in the tables', () => {
    const lacking = ROUTES.filter(({ id, body }) => body && !BODIES[id]).map(({ id }) => id)
    expect(lacking).toEqual([])
  })

  test.each(named.map((route) => [`${route.method} ${route.url}`, route] as const))(
    '%s answers as if it did not exist',
    async (_name, route) => {
      const missing = await ask(route, MISSING)
      const answers = [await ask(route, foreign)]
      // One foreign id among our own is as good as none.
      if (route.url.includes(':consumerId'))
        answers.push(await ask(route, { ...foreign, integrationId: own.integrationId }))

      if (route.id === 'getCompletionV2') {
        expect(answers[0]).toMatchObject({ status: 403, body: { code: 'integration_forbidden' } }) // stated
      } else {
        for (const answer of answers) {
          const same =
            (answer as { body: { code?: string } }).body.code === 'member_not_found'
              ? { ...(missing as object), body: expect.anything() }
              : missing
          expect(answer).toEqual(same)
        }
      }
    },
  )

  test('nothing of it has changed', async () => {
    const rows = await platform.rows(
      `SELECT i.name, c.title, m.status, k.revoked_at FROM integrations i
       JOIN chats c ON c.integration_id = i.id JOIN members m ON m.integration_id = i.id
       JOIN api_keys k ON k.owner_id = i.owner_id WHERE i.id = '${foreign.integrationId}'`,
    )
    expect(rows.length).toBeGreaterThan(0)
    for (const row of rows) expect(row).toEqual({ name: 'Test', title: null, status: 'active', revoked_at: null })
  })

  test('lists hold nothing of it', async () => {
    for (const path of ['/v1/chats', '/v1/runs', '/v1/integrations', '/v1/api_keys', '/v1/usage/records']) {
      const { text: list } = await mine.get(path)
      for (const id of Object.values(foreign)) expect(list).not.toContain(id)
    }
  })
})
