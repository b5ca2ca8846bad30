import {
  NewWebhookEndpoint,
  ServiceError,
  WebhookCreate,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookPatch,
  WebhookTest,
} from '@bureau/protocol'
import { type Answered, checkUrl, created, EgressError, NO_CONTENT, ok, param } from '@bureau/runtime'
import type { z } from 'zod'
import type { Platform } from '../context.ts'
import { listRoute } from '../http/pages.ts'
import { present } from '../http/present.ts'
import { type Call, jsonRoute, type Route } from '../http/route.ts'
import { newId } from '../ids.ts'
import { sendWebhook } from './send-webhook.ts'
import {
  createWebhookEndpoint,
  deleteWebhookEndpoint,
  type EndpointKey,
  findWebhookTarget,
  getWebhookEndpoint,
  listWebhookDeliveries,
  listWebhookEndpoints,
  newWebhookSecret,
  updateWebhookEndpoint,
} from './webhook-endpoints.ts'

const ENDPOINTS = '/v1/webhook_endpoints'
const ENDPOINT = `${ENDPOINTS}/:endpointId`
const COMMON = { tag: 'Webhooks', scope: 'webhooks', everyIntegration: true } as const

export const webhookRoutes: readonly Route[] = [
  jsonRoute(
    {
      ...COMMON,
      method: 'POST',
      url: ENDPOINTS,
      id: 'createWebhookEndpoint',
      summary: 'Have events delivered to an address; the secret that signs them is shown this once',
      idempotent: true,
      shownOnce: ['secret'],
      body: WebhookCreate,
      codes: { url: 'invalid_webhook_url' },
      success: { 201: NewWebhookEndpoint },
      errors: ['invalid_webhook_url'],
      examples: { request: { url: 'https://hooks.example.com/bureau', events: ['run.completed', 'run.failed'] } },
    },
    create,
  ),
  listRoute(
    {
      ...COMMON,
      url: ENDPOINTS,
      id: 'listWebhookEndpoints',
      summary: 'List webhook endpoints, newest first',
      item: WebhookEndpoint,
    },
    ({ platform, caller: { ownerId } }, page) => platform.store.db.run(listWebhookEndpoints, { ...page, ownerId }),
  ),
  jsonRoute(
    {
      ...COMMON,
      method: 'GET',
      url: ENDPOINT,
      id: 'getWebhookEndpoint',
      summary: 'Get a webhook endpoint',
      success: { 200: WebhookEndpoint },
      errors: ['webhook_not_found'],
    },
    async (call) => ok(await call.platform.store.db.run(getWebhookEndpoint, keyOf(call))),
  ),
  jsonRoute(
    {
      ...COMMON,
      method: 'PATCH',
      url: ENDPOINT,
      id: 'updateWebhookEndpoint',
      summary: 'Change a webhook endpoint, or switch it on again',
      body: WebhookPatch,
      codes: { url: 'invalid_webhook_url' },
      success: { 200: WebhookEndpoint },
      errors: ['webhook_not_found', 'invalid_webhook_url'],
    },
    update,
  ),
  jsonRoute(
    {
      ...COMMON,
      method: 'DELETE',
      url: ENDPOINT,
      id: 'deleteWebhookEndpoint',
      summary: 'Delete a webhook endpoint',
      success: { 204: null },
      errors: ['webhook_not_found'],
    },
    async (call) => {
      await call.platform.store.db.run(deleteWebhookEndpoint, { ...keyOf(call), actor: call.caller.keyId })
      return NO_CONTENT
    },
  ),
  jsonRoute(
    {
      ...COMMON,
      method: 'POST',
      url: `${ENDPOINT}/test`,
      id: 'testWebhookEndpoint',
      summary: 'Send a `webhook.test` event at once',
      success: { 200: WebhookTest },
      errors: ['webhook_not_found'],
    },
    sendTest,
  ),
  listRoute(
    {
      ...COMMON,
      url: `${ENDPOINT}/deliveries`,
      id: 'listWebhookDeliveries',
      summary: 'List what was and is to be delivered, newest first',
      item: WebhookDelivery,
      errors: ['webhook_not_found'],
    },
    (call, page) => call.platform.store.db.run(listWebhookDeliveries, { ...page, ...keyOf(call) }),
  ),
]

function keyOf(call: Call): EndpointKey {
  return { ownerId: call.caller.ownerId, endpointId: param(call, 'endpointId') }
}

/** @throws ServiceError `invalid_webhook_url` */
function requirePublic({ attachmentAccess }: Platform, url: string): string {
  try {
    return checkUrl(url, { ...attachmentAccess, schemes: ['https'] }).href
  } catch (error) {
    if (!(error instanceof EgressError)) throw error
    const message = `The webhook URL is not a public HTTPS address. ${error.message}`
    const code = 'invalid_webhook_url'
    throw new ServiceError(code, { message, fields: [{ path: '/url', code, error: message }], cause: error })
  }
}

async function create({
  platform,
  caller,
  body,
}: Call<unknown, z.output<typeof WebhookCreate>>): Promise<Answered<201, NewWebhookEndpoint>> {
  const { ownerId, keyId: actor } = caller
  const secret = newWebhookSecret()
  const dataKey = await platform.store.dataKeys.of(ownerId)
  const endpoint = { ...body, url: requirePublic(platform, body.url) }
  const view = await platform.store.db.run(createWebhookEndpoint, { ...endpoint, ownerId, actor, secret, dataKey })
  return created({ ...view, secret })
}

async function update(call: Call<unknown, z.output<typeof WebhookPatch>>): Promise<Answered<200, WebhookEndpoint>> {
  const { platform, caller, body } = call
  const url = body.url === undefined ? undefined : requirePublic(platform, body.url)
  const changes = present({ ...body, url })
  return ok(await platform.store.db.run(updateWebhookEndpoint, { ...keyOf(call), actor: caller.keyId, changes }))
}

async function sendTest(call: Call): Promise<Answered<200, WebhookTest>> {
  const key = keyOf(call)
  const target = await call.platform.store.db.run(findWebhookTarget, key)
  const event = { eventId: newId('evt'), topic: 'webhook.test', announcedAt: new Date().toISOString(), payload: {} }
  const sent = await sendWebhook(call.platform, { ...key, ...target, ...event })
  return ok({ delivered: sent.problem === null, ...sent })
}
