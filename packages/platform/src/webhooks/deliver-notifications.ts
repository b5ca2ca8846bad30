import { type NewPush, sendNotification, type TaskState } from '@bureau/faces'
import { checkReceiver, isDelivered } from '@bureau/runtime'
import type { Platform } from '../context.ts'
import { isPassing } from '../db/database-error.ts'
import { unsealText } from '../security/seal.ts'
import { pushSecretPlace, settleNotification, takeNotifications, type TakenNotification } from './push-configs.ts'

type Sender = Pick<Platform, 'store' | 'attachmentAccess' | 'log'>

const GONE = 410

/**
 * Notifies some receivers of runs that have ended or wait for a person, as A2A has it.
 *
 * @returns Milliseconds until the next notification is due; 0: more may be due now; null: none waits.
 */
export async function deliverNotifications(sender: Sender): Promise<number | null> {
  const { taken, nextMs } = await sender.store.db.run(takeNotifications, undefined)
  await Promise.all(taken.map((notification) => deliver(sender, notification)))
  return taken.length > 0 ? 0 : nextMs
}

async function deliver(sender: Sender, taken: TakenNotification): Promise<void> {
  const status = await send(sender, taken)
  const { runId, id, state, changedAt, attempts } = taken
  const outcome = { runId, id, state, changedAt, attempts, delivered: isDelivered(status), isGone: status === GONE }
  await sender.store.db.run(settleNotification, outcome)
}

/** @returns The status of the answer; null when there was none. */
async function send({ store, attachmentAccess, log }: Sender, taken: TakenNotification): Promise<number | null> {
  const { ownerId, runId: taskId, chatId: contextId, changedAt: timestamp, url, secretEnc } = taken
  const { dispatcher } = attachmentAccess
  const notified = { taskId, contextId, state: stateOf(taken), timestamp, dispatcher }
  try {
    const text = unsealText(await store.dataKeys.of(ownerId), pushSecretPlace(taken), secretEnc)
    const secret = JSON.parse(text) as PushSecret
    return await sendNotification(checkReceiver(url, attachmentAccess), secret, notified)
  } catch (error) {
    if (isPassing(error)) throw error // The database is away, which the receiver is not to blame for.
    log.info({ err: error, runId: taskId }, 'a push notification could not be delivered')
    return null
  }
}

/** What is sealed. */
export type PushSecret = Pick<NewPush, 'token' | 'authentication'>

function stateOf({ state, errorCode }: TakenNotification): TaskState {
  if (state === 'failed' && errorCode === 'guardrail_tripped') return 'TASK_STATE_REJECTED'
  return STATES[state]
}

const STATES: Readonly<Record<TakenNotification['state'], TaskState>> = {
  waiting: 'TASK_STATE_INPUT_REQUIRED',
  completed: 'TASK_STATE_COMPLETED',
  failed: 'TASK_STATE_FAILED',
  cancelled: 'TASK_STATE_CANCELED',
}
