import { postToReceiver } from '@bureau/runtime'
import type { NewPush, TaskState } from './protocol.ts'
import type { Asked, Task } from './tasks.ts'

/** A place where somebody is notified of a task, as its client sees it: what was secret is not shown again. */
export type PushConfig = Required<Pick<NewPush, 'url'>> & {
  readonly id: string
  readonly taskId: string
  readonly authentication?: { readonly scheme: string }
}

export function pushView(taskId: string, id: string, { url, authentication }: NewPush): PushConfig {
  return { taskId, id, url, ...(authentication && { authentication: { scheme: authentication.scheme } }) }
}

/** Who is notified of which task. Tasks are the caller's: whoever asks has found them. */
export interface PushConfigs {
  /**
   * Refuses before anything is begun.
   *
   * @throws EgressError the address may not be called. @throws ServiceError the caller may not ask for notifications.
   */
  check(asked: Asked, url: string): void

  /**
   * Keeps a configuration, in place of the one with its id. A task that is at rest is notified of at once.
   *
   * @throws ServiceError `invalid_request` the task has too many.
   */
  put(asked: Asked, task: Task, push: NewPush): Promise<PushConfig>

  /** In the order in which they were made. */
  of(asked: Asked, task: Task): Promise<readonly PushConfig[]>

  /** Nothing is sent any more. There may be none of this id. */
  delete(asked: Asked, task: Task, id: string): Promise<void>
}

export const MAX_PUSHES = 10
export const TOO_MANY_PUSHES = `A task has at most ${MAX_PUSHES} push notification configurations. Delete one of them first.`

/** What somebody is notified of: no words of the task, which whoever may read it gets with its id. */
export type Notification = {
  readonly taskId: string
  readonly contextId: string
  readonly state: TaskState
  /** When the task came to be so, in ISO 8601. */
  readonly timestamp: string
}

/** @returns The status of the answer. @throws Error there is none. */
export function sendNotification(
  url: URL,
  { token, authentication }: Pick<NewPush, 'token' | 'authentication'>,
  notified: Notification & { readonly dispatcher: Parameters<typeof postToReceiver>[1] },
): Promise<number> {
  const { taskId, contextId, state, timestamp, dispatcher } = notified
  const headers = {
    'content-type': 'application/a2a+json',
    ...(token !== undefined && { 'x-a2a-notification-token': token }),
    ...(authentication && { authorization: `${authentication.scheme} ${authentication.credentials}` }),
  }
  const body = JSON.stringify({ statusUpdate: { taskId, contextId, status: { state, timestamp } } })
  return postToReceiver(url, dispatcher, { headers, body })
}
