import { type Route, ROUTES } from '@bureau/platform/testing'
import { beforeAll, describe, expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { addOneOfEach, BODIES, type Ids, MISSING, namesIn, oneOfEach, requestOf, send } from './support/one-of-each.ts'
import type { TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

/** Every operation, with everything that its path, its body or its query can name. */
const cases = ROUTES.flatMap((route) =>
  namesIn(route).map((name) => [`${route.method} ${route.url}`, name, route] as const),
)

/** What the protocols of others call a tenant's things in their paths: an operation under one of these is not in `ROUTES`. */
const PROTOCOLS = /^\w+ \/(?:openai|a2a|mcp|\.well-known)(?:\/|$)/
const IN_PROTOCOLS: Readonly<Record<string, (ids: Ids) => string>> = {
  agency: ({ integrationId }) => integrationId,
  model: ({ integrationId }) => integrationId,
  id: ({ runId }) => `resp_${runId}`,
  task: ({ runId }) => runId,
  config: () => 'config_1',
}
/** A valid body of each that takes one. */
const PROTOCOL_BODIES: Readonly<Record<string, (ids: Ids) => unknown>> = {
  'POST /openai/v1/responses': ({ integrationId, runId }) => ({
    model: integrationId,
    input: 'Hi',
    previous_response_id: `resp_${runId}`,
  }),
  'POST /openai/v1/chat/completions': ({ integrationId }) => ({
    model: integrationId,
    messages: [{ role: 'user', content: 'Hi' }],
  }),
  'POST /a2a/:agency': ({ runId }) => ({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: runId } }),
}
const A2A_MESSAGE = { message: { role: 'ROLE_USER', messageId: 'm', parts: [{ text: 'Hi' }] } }

/** A name that may be new in these: nothing is looked for. */
const isNew = ({ id }: Route, name: keyof Ids): boolean =>
  (id === 'getCompletionV2' && name === 'aliasChatId') ||
  (['createConsumerToken', 'revokeConsumerTokens'].includes(id) && name === 'consumerId')

const OWNERS = ['another owner', 'another integration of the owner'] as const
const SUBJECTS = ENGINES.flatMap((engine) => OWNERS.map((owner) => ({ engine, owner })))

describe.each(SUBJECTS)('what belongs to $owner on $engine', ({ engine, owner }) => {
  const platform = servePlatform(engine)
  let mine: TestClient
  let own: Ids
  let foreign: Ids

  beforeAll(async () => {
    platform.provider.respond(() => text('Hello.'))
    const first = await addOneOfEach(platform, 'mine')
    mine = first.client
    own = first.ids
    if (owner === 'another owner') {
      foreign = (await addOneOfEach(platform, 'theirs')).ids
      return
    }
    const integrationId = await platform.addIntegration(mine.ownerId)
    foreign = await oneOfEach(mine.with({ integrationId }), 'theirs')
    const restricted = await mine.post('/v1/api_keys', { name: 'restricted', integrationIds: [mine.integrationId] })
    mine = mine.with({ token: restricted.body.token })
  })

  /** The answer without what differs from one request to the next. */
  async function ask(route: Route, ids: Ids): Promise<unknown> {
    const request = requestOf(route, ids)
    const headers = { ...request.headers, 'idempotency-key': `k-${Math.random()}` }
    const { status, body, text: raw } = await send(mine, { ...request, headers })
    if (body === undefined) return { status, text: raw }
    const { requestId: _, ...rest } = body as { requestId?: string }
    const told = JSON.stringify(rest).replaceAll(ids.path, 'the path that was asked for')
    return { status, body: JSON.parse(told) as unknown }
  }

  async function describedOperations(): Promise<string[]> {
    const { paths } = (await (await fetch(`${platform.url}/v1/openapi.json`)).json()) as {
      paths: Record<string, object>
    }
    return Object.entries(paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`),
    )
  }

  test('the description names every operation that is walked here, and no other', async () => {
    const described = (await describedOperations()).filter((operation) => !PROTOCOLS.test(operation))

    expect(described.toSorted()).toEqual(ROUTES.map(({ method, url }) => `${method} ${url}`).toSorted())
    expect(ROUTES.filter(({ id, body, rawBody }) => (body ?? rawBody) && !BODIES[id]).map(({ id }) => id)).toEqual([])
    for (const { url } of ROUTES) for (const [, name] of url.matchAll(/:(\w+)/g)) expect(MISSING).toHaveProperty(name!)
  })

  test.each(cases)('%s with a foreign %s answers as if there were none', async (_title, name, route) => {
    const answer = await ask(route, { ...own, [name]: foreign[name] })
    const missing = await ask(route, { ...own, [name]: MISSING[name] })

    if (route.id === 'getCompletionV2' && name === 'integrationId') {
      const code = owner === 'another owner' ? 'integration_forbidden' : 'insufficient_scope'
      expect(answer).toMatchObject({ status: 403, body: { code } }) // stated
      return
    }
    if (isNew(route, name)) return
    expect(answer).toEqual(missing)
    expect(JSON.stringify(answer)).not.toContain(foreign.integrationId)
  })

  test.each(
    ROUTES.filter((route) => namesIn(route).length > 1).map(
      (route) => [`${route.method} ${route.url}`, route] as const,
    ),
  )('%s with nothing but foreign names answers as if there were none', async (_title, route) => {
    if (route.id === 'getCompletionV2') return // 403, stated
    const open = route.scope === null ? { token: own.token } : {} // an upload's own token opens it to everybody

    expect(await ask(route, { ...foreign, ...open })).toEqual(await ask(route, { ...MISSING, ...open }))
  })

  test('the protocols of others answer about foreign names as if there were none', async () => {
    const protocols = (await describedOperations()).filter((operation) => PROTOCOLS.test(operation))
    expect(protocols.length).toBeGreaterThan(20)
    for (const operation of protocols) {
      const [method = '', url = ''] = operation.split(' ')
      const answerAbout = async (ids: Ids): Promise<unknown> => {
        const path = url.replaceAll(/:(\w+)/g, (verb, name: string) => IN_PROTOCOLS[name]?.(ids) ?? verb)
        const body = method === 'POST' ? (PROTOCOL_BODIES[operation]?.(ids) ?? A2A_MESSAGE) : undefined
        const response = await mine.fetch(method, path, body, { headers: { 'a2a-version': '1.0' } }) // each protocol has refusals of its own form
        const { status } = response
        const answer = await response.text()
        return {
          operation,
          status,
          answer: Object.values(ids).reduce((told, each) => told.replaceAll(each, '…'), answer),
        }
      }
      const answers = [await answerAbout(foreign), await answerAbout(MISSING)]
      const namesSomething = url.includes(':') || operation in PROTOCOL_BODIES
      if (namesSomething) expect(answers[0]).toMatchObject({ answer: expect.stringContaining('"error"') })
      expect(answers[0]).toEqual(answers[1])
    }
  })

  test('nothing of it has changed', async () => {
    const rows = await platform.rows(
      `SELECT i.name, i.deleted_at, c.title, c.deleted_at AS chat_gone, m.status, k.revoked_at, u.received_bytes::int, w.status AS hook
       FROM integrations i JOIN chats c ON c.integration_id = i.id JOIN members m ON m.integration_id = i.id
       JOIN api_keys k ON k.owner_id = i.owner_id JOIN uploads u ON u.id = '${foreign.uploadId}'
       JOIN webhook_endpoints w ON w.owner_id = i.owner_id WHERE i.id = '${foreign.integrationId}'`,
    )
    expect(rows.length).toBeGreaterThan(0)
    for (const row of rows) {
      expect(row).toEqual({
        name: 'Test',
        deleted_at: null,
        title: null,
        chat_gone: null,
        status: 'active',
        revoked_at: null,
        received_bytes: 0,
        hook: 'enabled',
      })
    }
  })

  test('lists hold nothing of it', async () => {
    const lists = ROUTES.filter(({ method, url, query }) => method === 'GET' && query && !url.includes(':'))
    for (const { url, id } of lists) {
      if (id === 'findChatStatus') continue
      const { text: list } = await mine.get(
        `${url}?${{ summarizeUsage: 'groupBy=integration', exportUsage: 'format=csv' }[id] ?? ''}`,
      )
      // What this owner has tried is recorded with the name of the consumer that it sent itself.
      const hidden = Object.values(foreign).filter((each) => id !== 'listAudit' || each !== foreign.consumerId)
      for (const each of hidden) expect(list).not.toContain(each)
    }
  })

  test("somebody else's alias is a new name here", async () => {
    platform.provider.respond(() => text('Hello.'))
    const { stream } = await mine.completeWhole({ aliasChatId: foreign.aliasChatId })

    expect(stream.chatId).not.toBe(foreign.chatId)
    expect(stream.result.status).toBe('completed')
  })
})
