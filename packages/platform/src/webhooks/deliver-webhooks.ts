import type { Platform } from '../context.ts'
import { sendWebhook } from './send-webhook.ts'
import { fanOutAnnouncements, settleDelivery, takeDeliveries, type TakenDelivery } from './webhook-retries.ts'

type Sender = Pick<Platform, 'store' | 'attachmentAccess' | 'log'>

/**
 * Announces what has happened since the last time, and delivers some of what is due.
 *
 * @returns Milliseconds until the next delivery is due; 0: more may be due now; null: none waits.
 */
export async function deliverWebhooks(sender: Sender): Promise<number | null> {
  const { db } = sender.store
  while (await db.run(fanOutAnnouncements, undefined)) {
    // There may be more.
  }
  const { taken, nextMs } = await db.run(takeDeliveries, undefined)
  await Promise.all(taken.map((delivery) => deliver(sender, delivery)))
  return taken.length > 0 ? 0 : nextMs
}

async function deliver(sender: Sender, delivery: TakenDelivery): Promise<void> {
  const { endpointId, eventId, attempts } = delivery
  const { responseStatus, problem } = await sendWebhook(sender, delivery)
  const outcome = { endpointId, eventId, attempts, delivered: problem === null, responseStatus }
  await sender.store.db.run(settleDelivery, outcome)
}
