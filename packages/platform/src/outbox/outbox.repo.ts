import type { WebhookEvent } from '@bureau/protocol'
import type { Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { outbox } from '../db/schema.ts'
import { newId } from '../ids.ts'

type NewEntry = Required<Pick<typeof outbox.$inferInsert, 'ownerId' | 'topic' | 'eventId' | 'payload'>> & {
  readonly runId: string | null
}

/** An announcement, as a query or as part of one. */
export const announcing = (tx: Tx, { ownerId, topic, eventId, runId, payload }: NewEntry) =>
  tx.insert(outbox).values({ ownerId, topic, eventId, runId, payload })

const insertEntry = prepared(announcing)

/**
 * Announces a change in the transaction that makes it, for delivery later.
 *
 * `data` is what the receiver gets: never message text, URLs or secrets.
 */
export async function appendOutbox(
  tx: Tx,
  ownerId: string,
  topic: WebhookEvent,
  data: Readonly<Record<string, unknown>>,
): Promise<void> {
  const runId = topic.startsWith('run.') && typeof data['runId'] === 'string' ? data['runId'] : null
  await insertEntry(tx, { ownerId, topic, eventId: newId('evt'), runId, payload: data })
}
