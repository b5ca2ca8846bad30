import { type Route, ROUTES } from '@bureau/platform/testing'
import type { Answer, TestClient } from './test-client.ts'
import type { Served } from './test-platform.ts'

/** What a tenant has one of, by the name that routes have for it. */
export type Ids = Readonly<
  Record<
    | 'integrationId'
    | 'agency'
    | 'chatId'
    | 'aliasChatId'
    | 'runId'
    | 'usageRequestId'
    | 'consumerId'
    | 'keyId'
    | 'endpointId'
    | 'uploadId'
    | 'token'
    | 'path'
    | 'state',
    string
  >
>

const NOTHING = '0'.repeat(26)
export const MISSING: Ids = {
  integrationId: `int_${NOTHING}`,
  agency: `int_${NOTHING}`,
  chatId: `chat_${NOTHING}`,
  aliasChatId: 'nowhere',
  runId: `run_${NOTHING}`,
  usageRequestId: 'never-sent',
  consumerId: 'nobody',
  keyId: `key_${NOTHING}`,
  endpointId: `whk_${NOTHING}`,
  uploadId: `upl_${NOTHING}`,
  token: NOTHING,
  path: `/app/mnt/uploads/${NOTHING}/a.txt`,
  state: 'nothing',
}

type MakeBody = (ids: Ids) => unknown

/** A valid body for every route that takes one. A new route needs a line here. */
export const BODIES: Readonly<Record<string, MakeBody>> = {
  getCompletionV2: ({ integrationId: apiIntegrationId, chatId, path }) => ({
    apiIntegrationId,
    chatId,
    message: 'Hi',
    sandboxFiles: [{ name: 'a.txt', path }],
  }),
  runAgui: () => ({ threadId: 't', runId: 'r', messages: [{ id: 'u', role: 'user', content: 'Hi' }] }),
  decideApprovals: () => [{ callId: 'call_1', approve: true }],
  branchChat: ({ runId: beforeRunId }) => ({ beforeRunId }),
  createNewChat: (ids) => ({ apiIntegrationId: ids.integrationId }),
  create_agency_upload: (ids) => ({ apiIntegrationId: ids.integrationId, name: 'a.txt', size: 1 }),
  putUploadContent: () => 'x',
  patchUploadContent: () => 'x',
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
  createConsumerToken: (ids) => ({ apiIntegrationId: ids.integrationId, consumerId: ids.consumerId }),
  revokeConsumerTokens: (ids) => ({ apiIntegrationId: ids.integrationId, consumerId: ids.consumerId }),
  createWebhookEndpoint: () => ({ url: 'https://hooks.example.com/x', events: ['run.failed'] }),
  updateWebhookEndpoint: () => ({ status: 'disabled' }),
}

/** The query of routes that need one, or that can name something of a tenant in it. */
const QUERIES: Readonly<Record<string, (ids: Ids) => Record<string, string>>> = {
  findChatStatus: ({ integrationId: apiIntegrationId, usageRequestId }) => ({ apiIntegrationId, usageRequestId }),
  listChats: ({ integrationId: apiIntegrationId, consumerId, aliasChatId }) => ({
    apiIntegrationId,
    consumerId,
    aliasChatId,
  }),
  listRuns: ({ integrationId: apiIntegrationId, chatId, consumerId }) => ({ apiIntegrationId, chatId, consumerId }),
  listUsageRecords: ({ integrationId: apiIntegrationId, consumerId, usageRequestId }) => ({
    apiIntegrationId,
    consumerId,
    usageRequestId,
  }),
  summarizeUsage: ({ integrationId: apiIntegrationId }) => ({ groupBy: 'day', apiIntegrationId }),
  exportUsage: ({ integrationId: apiIntegrationId }) => ({ format: 'jsonl', apiIntegrationId }),
  endSignIns: ({ consumerId }) => ({ consumerId }),
  getFileContent: ({ path }) => ({ path }),
  deleteFile: ({ path }) => ({ path }),
  putUploadContent: ({ token }) => ({ token }),
  patchUploadContent: ({ token }) => ({ token }),
  headUploadContent: ({ token }) => ({ token }),
}

const HEADERS: Readonly<Record<string, Record<string, string>>> = {
  adjustAllowance: { 'idempotency-key': 'key-1' },
  putUploadContent: { 'content-type': 'application/octet-stream' },
  patchUploadContent: { 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' },
}

type Request = {
  readonly method: string
  readonly path: string
  readonly body: unknown
  readonly headers: Record<string, string>
}

/** A valid request of a route, about these things. */
export function requestOf({ id, method, url }: Route, ids: Ids, body: unknown = BODIES[id]?.(ids)): Request {
  const path = url.replaceAll(/:(\w+)/g, (_, name: keyof Ids) => encodeURIComponent(ids[name]))
  const query = new URLSearchParams(QUERIES[id]?.(ids)).toString()
  return { method, path: query === '' ? path : `${path}?${query}`, body, headers: HEADERS[id] ?? {} }
}

/** The names of what a route can be asked about: in its path, its body or its query. */
export function namesIn(route: Route): (keyof Ids)[] {
  const request = JSON.stringify(requestOf(route, MISSING))
  const names = Object.keys(MISSING) as (keyof Ids)[]
  // Read from other values than those of a real tenant, so that no name is found by chance.
  return names.filter((name) => {
    const other = { ...MISSING, [name]: `${MISSING[name]}9` }
    return JSON.stringify(requestOf(route, other)) !== request
  })
}

export const routeNamed = (id: string): Route => ROUTES.find((route) => route.id === id)!

/** Sends a request; a stream is read to its end. */
export function send(client: TestClient, { method, path, body, headers }: Request): Promise<Answer> {
  return client.call(method, path, body, { headers })
}

/** A new tenant that has one of each. The integration has no allowances. */
export async function addOneOfEach(platform: Served, name: string): Promise<{ client: TestClient; ids: Ids }> {
  const client = await platform.client()
  return { client, ids: await oneOfEach(client, name) }
}

/** The same in the integration of a client. */
export async function oneOfEach(client: TestClient, name: string): Promise<Ids> {
  const { integrationId } = client
  const [consumerId, aliasChatId, usageRequestId] = [`u-${name}`, `room-${name}`, `request-${name}`]
  await client.post(`/v1/integrations/${integrationId}/members`, { consumerId })
  const { stream } = await client.completeWhole({ usageRequestId, consumerId, aliasChatId })
  const key = await client.post('/v1/api_keys', { name: 'second' })
  const hook = await client.post('/v1/webhook_endpoints', BODIES['createWebhookEndpoint']!(MISSING))
  const stored = await upload(client, { apiIntegrationId: integrationId, name: 'a.txt', size: 1 })
  await client.fetch('PUT', stored.place, 'x')
  const pending = await upload(client, { apiIntegrationId: integrationId, name: 'b.txt', size: 1 })
  return {
    integrationId,
    agency: integrationId,
    chatId: stream.chatId,
    aliasChatId,
    runId: stream.runId,
    usageRequestId,
    consumerId,
    keyId: key.body.id,
    endpointId: hook.body.id,
    uploadId: pending.uploadId,
    token: pending.token,
    path: stored.path,
    state: MISSING.state,
  }
}

type Upload = { uploadId: string; token: string; place: string; path: string }

async function upload(client: TestClient, body: object): Promise<Upload> {
  const { body: made } = await client.post('/create_agency_upload', body)
  const url = new URL(made.uploadUrl)
  return {
    uploadId: made.uploadId,
    token: url.searchParams.get('token')!,
    place: url.pathname + url.search,
    path: made.path,
  }
}
