import { z } from 'zod'
import { Time } from './platform-fields.ts'
import { WEBHOOK_EVENTS } from './platform-names.ts'

/** Webhook endpoints of the hosted platform (https://www.standardwebhooks.com). */

const Events = z
  .array(z.enum(WEBHOOK_EVENTS))
  .min(1)
  .refine((events) => new Set(events).size === events.length, 'must not repeat an event')

const Url = z.string().max(2048).describe('A public HTTPS address.').meta({ format: 'uri' })
const Status = z.enum(['enabled', 'disabled'])

export const WebhookCreate = z
  .strictObject({ url: Url, events: Events, status: Status.default('enabled') })
  .meta({ id: 'WebhookCreate' })

export const WebhookPatch = z
  .strictObject({ url: Url.optional(), events: Events.optional(), status: Status.optional() })
  .refine((changes) => Object.keys(changes).length > 0, 'must change something')
  .meta({ id: 'WebhookPatch' })

export const WebhookEndpoint = z
  .object({
    object: z.literal('webhook_endpoint'),
    id: z.string(),
    url: z.string(),
    events: z.array(z.string()),
    status: Status.describe('disabled also after three days of failures.'),
    failingSince: Time.nullable(),
    createdAt: Time,
  })
  .meta({ id: 'WebhookEndpoint' })
export type WebhookEndpoint = z.output<typeof WebhookEndpoint>

export const NewWebhookEndpoint = WebhookEndpoint.extend({
  secret: z
    .string()
    .nullable()
    .describe('Signs the deliveries. Shown this once: null when an Idempotency-Key is repeated.'),
}).meta({ id: 'NewWebhookEndpoint' })
export type NewWebhookEndpoint = z.output<typeof NewWebhookEndpoint>

export const WebhookDelivery = z
  .object({
    object: z.literal('webhook_delivery'),
    eventId: z.string(),
    type: z.string(),
    state: z.enum(['pending', 'delivered', 'failed']),
    attempts: z.int(),
    responseStatus: z.int().nullable(),
    nextAttemptAt: Time.nullable(),
    createdAt: Time,
    doneAt: Time.nullable(),
  })
  .meta({ id: 'WebhookDelivery' })
export type WebhookDelivery = z.output<typeof WebhookDelivery>

export const WebhookTest = z
  .object({
    delivered: z.boolean(),
    responseStatus: z.int().nullable(),
    problem: z.string().nullable().describe('Why it was not delivered.'),
  })
  .meta({ id: 'WebhookTest' })
export type WebhookTest = z.output<typeof WebhookTest>
