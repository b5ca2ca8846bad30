import { createHmac } from 'node:crypto'
import { checkUrl, EgressError, isDelivered, postToReceiver } from '@bureau/runtime'
import type { Platform } from '../context.ts'
import { isPassing } from '../db/database-error.ts'
import { SealError, unsealText } from '../security/seal.ts'
import { secretPlace } from './webhook-endpoints.ts'
import type { TakenDelivery } from './webhook-retries.ts'

/**
 * Sends one webhook, signed. Only public addresses are reached, and no redirect is followed.
 *
 * @returns The status of the answer, null when there was none; and a sentence for the owner when it was not delivered.
 */
export async function sendWebhook(
  { store, attachmentAccess, log }: Pick<Platform, 'store' | 'attachmentAccess' | 'log'>,
  webhook: Omit<TakenDelivery, 'attempts'>,
): Promise<SentWebhook> {
  const { ownerId, eventId, url } = webhook
  const body = JSON.stringify({
    id: eventId,
    type: webhook.topic,
    createdAt: webhook.announcedAt,
    data: webhook.payload,
  })
  try {
    const secret = unsealText(await store.dataKeys.of(ownerId), secretPlace(webhook), webhook.secretEnc)
    const headers = { 'content-type': 'application/json', ...signature(secret, eventId, body) }
    const receiver = checkUrl(url, { ...attachmentAccess, schemes: ['https'] })
    const responseStatus = await postToReceiver(receiver, attachmentAccess.dispatcher, { headers, body })
    const problem = isDelivered(responseStatus) ? null : `It answered with ${responseStatus}, not with 200 to 299.`
    return { responseStatus, problem }
  } catch (error) {
    if (isPassing(error)) throw error // The database is away, which the endpoint is not to blame for.
    log.info({ err: error, endpointId: webhook.endpointId }, 'a webhook could not be delivered')
    return { responseStatus: null, problem: problemOf(error) }
  }
}

type SentWebhook = { readonly responseStatus: number | null; readonly problem: string | null }

/** Never includes a resolved IP address: the owner already knows the URL. */
function problemOf(error: unknown): string {
  if (error instanceof EgressError) return error.message
  if (error instanceof SealError) return 'Its secret cannot be read. Delete the endpoint, and create it again.'
  const { name, code = '' } = error as { readonly name?: string; readonly code?: string }
  if (name === 'TimeoutError') return 'It did not answer in time.'
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'Its host name was not found.'
  if (code === 'ECONNREFUSED') return 'It refused the connection.'
  if (/CERT|TLS|SSL/.test(code)) return 'Its certificate is not valid.'
  return 'The connection to it failed.'
}

/** Standard Webhooks, version 1: HMAC-SHA256 over id, time and body. */
export function signature(secret: string, id: string, body: string, nowMs = Date.now()): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1_000))
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const mac = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${mac}` }
}
