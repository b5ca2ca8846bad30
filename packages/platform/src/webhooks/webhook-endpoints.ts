import { randomBytes } from 'node:crypto'
import { ServiceError, type WebhookDelivery, type WebhookEndpoint } from '@bureau/protocol'
import { and, desc, eq, sql } from 'drizzle-orm'
import { appendAudit } from '../audit/audit.repo.ts'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { olderThan, type Page, type PageRequest, toPage } from '../db/page.ts'
import { webhookDeliveries, webhookEndpoints } from '../db/schema.ts'
import { newId } from '../ids.ts'
import { type Place, seal } from '../security/seal.ts'

export type EndpointKey = { readonly ownerId: string; readonly endpointId: string }
type Row = typeof webhookEndpoints.$inferSelect

const SECRET_BYTES = 32

export const secretPlace = ({ ownerId, endpointId }: EndpointKey): Place => ({
  table: 'webhook_endpoints',
  column: 'secret_enc',
  owner: ownerId,
  row: endpointId,
})

/** A secret as Standard Webhooks writes it. */
export function newWebhookSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`
}

type NewEndpoint = {
  /** Was checked to be a public HTTPS address. */
  readonly url: string
  readonly events: readonly string[]
  readonly status: 'enabled' | 'disabled'
}

/** Each announcement is copied for each of them, in one statement for all owners. */
const MAX_ENDPOINTS = 100
/** Of endpoints that are created at once, one after the other is counted. */
const LOCK = 727_004

/** @throws ServiceError `invalid_request`: the owner has too many. */
export const createWebhookEndpoint = tenantOperation(
  { source: import.meta.url, name: 'createWebhookEndpoint', lane: 'interactive' },
  async (
    tx,
    args: NewEndpoint & { ownerId: string; actor: string; secret: string; dataKey: Uint8Array },
  ): Promise<WebhookEndpoint> => {
    const { ownerId, url, events, status, secret, dataKey, actor } = args
    await tx.execute(sql`SELECT pg_advisory_xact_lock(${LOCK}, hashtext(${ownerId}))`)
    if ((await tx.$count(webhookEndpoints, eq(webhookEndpoints.ownerId, ownerId))) >= MAX_ENDPOINTS) {
      const message = `An owner has at most ${MAX_ENDPOINTS} webhook endpoints. Delete one of them first.`
      throw new ServiceError('invalid_request', { message })
    }
    const endpointId = newId('whk')
    const secretEnc = seal(dataKey, secretPlace({ ownerId, endpointId }), secret)
    const [row] = await tx
      .insert(webhookEndpoints)
      .values({ id: endpointId, ownerId, url, events: [...events], status, secretEnc })
      .returning()
    if (!row) throw new Error('the webhook endpoint was not stored')
    await appendAudit(tx, ownerId, { actor, action: 'webhook.created', target: endpointId })
    return endpointView(row)
  },
)

/** @throws ServiceError `webhook_not_found` */
export const getWebhookEndpoint = tenantOperation(
  { source: import.meta.url, name: 'getWebhookEndpoint', lane: 'interactive', onlyReads: true },
  async (tx, key: EndpointKey): Promise<WebhookEndpoint> => endpointView(await requireEndpoint(tx, key)),
)

/** Newest first. */
export const listWebhookEndpoints = tenantOperation(
  { source: import.meta.url, name: 'listWebhookEndpoints', lane: 'interactive', onlyReads: true },
  async (tx, { ownerId, limit, after }: PageRequest & { ownerId: string }): Promise<Page<WebhookEndpoint>> => {
    const rows = await tx
      .select()
      .from(webhookEndpoints)
      .where(
        and(eq(webhookEndpoints.ownerId, ownerId), olderThan(webhookEndpoints.createdAt, webhookEndpoints.id, after)),
      )
      .orderBy(desc(webhookEndpoints.createdAt), desc(webhookEndpoints.id))
      .limit(limit + 1)
    return toPage(rows, limit, endpointView, (row) => [row.createdAt.toISOString(), row.id])
  },
)

/** Switched on again, an endpoint is not failing any more. @throws ServiceError `webhook_not_found` */
export const updateWebhookEndpoint = tenantOperation(
  { source: import.meta.url, name: 'updateWebhookEndpoint', lane: 'interactive' },
  async (tx, args: EndpointKey & { actor: string; changes: Partial<NewEndpoint> }): Promise<WebhookEndpoint> => {
    const { ownerId, endpointId, actor, changes } = args
    const { events, ...rest } = changes
    const [row] = await tx
      .update(webhookEndpoints)
      .set({
        ...rest,
        ...(events && { events: [...events] }),
        ...(changes.status === 'enabled' && { failingSince: null }),
      })
      .where(isEndpoint(args))
      .returning()
    if (!row) throw new ServiceError('webhook_not_found')
    await appendAudit(tx, ownerId, { actor, action: 'webhook.updated', target: endpointId })
    return endpointView(row)
  },
)

/** Deliveries that are still to come are dropped. @throws ServiceError `webhook_not_found` */
export const deleteWebhookEndpoint = tenantOperation(
  { source: import.meta.url, name: 'deleteWebhookEndpoint', lane: 'interactive' },
  async (tx, args: EndpointKey & { actor: string }): Promise<void> => {
    const { ownerId, endpointId, actor } = args
    const gone = await tx.delete(webhookEndpoints).where(isEndpoint(args)).returning({ id: webhookEndpoints.id })
    if (gone.length === 0) throw new ServiceError('webhook_not_found')
    await appendAudit(tx, ownerId, { actor, action: 'webhook.deleted', target: endpointId })
  },
)

/** Newest first. @throws ServiceError `webhook_not_found` */
export const listWebhookDeliveries = tenantOperation(
  { source: import.meta.url, name: 'listWebhookDeliveries', lane: 'interactive', onlyReads: true },
  async (tx, args: EndpointKey & PageRequest): Promise<Page<WebhookDelivery>> => {
    await requireEndpoint(tx, args)
    const { ownerId, endpointId, limit, after } = args
    const rows = await tx
      .select()
      .from(webhookDeliveries)
      .where(
        and(
          eq(webhookDeliveries.endpointId, endpointId),
          eq(webhookDeliveries.ownerId, ownerId),
          olderThan(webhookDeliveries.createdAt, webhookDeliveries.eventId, after),
        ),
      )
      .orderBy(desc(webhookDeliveries.createdAt), desc(webhookDeliveries.eventId))
      .limit(limit + 1)
    return toPage(rows, limit, deliveryView, (row) => [row.createdAt.toISOString(), row.eventId])
  },
)

/** The address and the sealed secret. @throws ServiceError `webhook_not_found` */
export const findWebhookTarget = tenantOperation(
  { source: import.meta.url, name: 'findWebhookTarget', lane: 'interactive', onlyReads: true },
  async (tx, key: EndpointKey): Promise<{ url: string; secretEnc: Uint8Array }> => {
    const { url, secretEnc } = await requireEndpoint(tx, key)
    return { url, secretEnc }
  },
)

const isEndpoint = ({ ownerId, endpointId }: EndpointKey) =>
  and(eq(webhookEndpoints.id, endpointId), eq(webhookEndpoints.ownerId, ownerId))

async function requireEndpoint(tx: Tx, key: EndpointKey): Promise<Row> {
  const [row] = await tx.select().from(webhookEndpoints).where(isEndpoint(key))
  if (!row) throw new ServiceError('webhook_not_found')
  return row
}

function endpointView({ id, url, events, status, failingSince, createdAt }: Row): WebhookEndpoint {
  return {
    object: 'webhook_endpoint',
    id,
    url,
    events,
    status,
    failingSince: failingSince?.toISOString() ?? null,
    createdAt: createdAt.toISOString(),
  }
}

function deliveryView(row: typeof webhookDeliveries.$inferSelect): WebhookDelivery {
  return {
    object: 'webhook_delivery',
    eventId: row.eventId,
    type: row.topic,
    state: row.state,
    attempts: row.attempts,
    responseStatus: row.responseStatus,
    nextAttemptAt: row.state === 'pending' ? row.nextAt.toISOString() : null,
    createdAt: row.createdAt.toISOString(),
    doneAt: row.doneAt?.toISOString() ?? null,
  }
}
