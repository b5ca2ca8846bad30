import { randomUUID } from 'node:crypto'
import {
  type AskedTask,
  type NewPush,
  type PushConfig,
  type PushConfigs,
  type Task,
  TOO_MANY_PUSHES,
} from '@bureau/faces'
import { ServiceError } from '@bureau/protocol'
import { checkReceiver } from '@bureau/runtime'
import type { Platform } from '../context.ts'
import { callerOf } from '../http/callers.ts'
import { seal } from '../security/seal.ts'
import type { PushSecret } from '../webhooks/deliver-notifications.ts'
import { deletePushConfig, listPushConfigs, pushSecretPlace, putPushConfig } from '../webhooks/push-configs.ts'

/** Who is notified of the runs of the platform. A page that holds a consumer token cannot have its owner's server call others. */
export class PlatformPushes implements PushConfigs {
  readonly #platform: Platform

  constructor(platform: Platform) {
    this.#platform = platform
  }

  check(asked: AskedTask, url: string): void {
    ownerOf(asked)
    checkReceiver(url, this.#platform.attachmentAccess)
  }

  async put(asked: AskedTask, { id: runId }: Task, push: NewPush): Promise<PushConfig> {
    const { store, webhooks } = this.#platform
    const { id = randomUUID(), url, token, authentication } = push
    const key = { ownerId: ownerOf(asked), runId, id }
    const secret: PushSecret = { token, authentication }
    const secretEnc = seal(await store.dataKeys.of(key.ownerId), pushSecretPlace(key), JSON.stringify(secret))
    const { scheme } = authentication ?? {}
    const isPut = await store.db.run(putPushConfig, { ...key, url, scheme: scheme ?? null, secretEnc })
    if (!isPut) throw new ServiceError('invalid_request', { message: TOO_MANY_PUSHES })
    webhooks.wake()
    return { taskId: runId, id, url, ...(scheme !== undefined && { authentication: { scheme } }) }
  }

  async of(asked: AskedTask, { id: runId }: Task): Promise<readonly PushConfig[]> {
    return this.#platform.store.db.run(listPushConfigs, { ownerId: ownerOf(asked), runId })
  }

  async delete(asked: AskedTask, { id: runId }: Task, id: string): Promise<void> {
    await this.#platform.store.db.run(deletePushConfig, { ownerId: ownerOf(asked), runId, id })
  }
}

/** @throws ServiceError `insufficient_scope` a consumer's page asks. */
function ownerOf({ request }: AskedTask): string {
  const { ownerId, consumerId } = callerOf(request, true)
  if (consumerId !== undefined)
    throw new ServiceError('insufficient_scope', { message: 'A consumer token may not do that.' })
  return ownerId
}
