import type { Platform } from '../context.ts'
import { isDelivered, sendWebhook } from './send-webhook.ts'
import { fanOutAnnouncements, settleDelivery, takeDeliveries, type TakenDelivery } from './webhook-retries.ts'

/** Announces what has happened since the last time, and delivers what is due. */
export async function deliverWebhooks(platform: Platform): Promise<void> {
  const { db } = platform.store
  while ((await db.run(fanOutAnnouncements, undefined)) > 0) {
    // There may be more.
  }
  for (;;) {
    const taken = await db.run(takeDeliveries, undefined)
    if (taken.length === 0) return
    await Promise.all(taken.map((delivery) => deliver(platform, delivery)))
  }
}

async function deliver(platform: Platform, delivery: TakenDelivery): Promise<void> {
  const { endpointId, eventId } = delivery
  const responseStatus = await sendWebhook(platform, delivery)
  const outcome = { endpointId, eventId, delivered: isDelivered(responseStatus), responseStatus }
  await platform.store.db.run(settleDelivery, outcome)
}
