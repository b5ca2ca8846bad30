import type { ApiKey } from '@bureau/protocol'
import type { Platform } from '../context.ts'
import type { Page, PageRequest } from '../db/page.ts'
import { getApiKey, listApiKeys, revokeApiKey } from './api-keys.repo.ts'
import { type Caller, reachOf, requireGrantable } from '../caller.ts'
import { type IssuedApiKey, rotateApiKey } from './create-api-key.ts'

/** The keys that the caller manages, newest first. */
export function readApiKeys({ store }: Platform, caller: Caller, page: PageRequest): Promise<Page<ApiKey>> {
  return store.db.run(listApiKeys, { ...reachOf(caller), ...page })
}

/** @throws ServiceError `api_key_not_found` */
export function readApiKey({ store }: Platform, caller: Caller, keyId: string): Promise<ApiKey> {
  return store.db.run(getApiKey, { ...reachOf(caller), keyId })
}

/**
 * Replaces the key; that it ends is known here at once and everywhere within seconds.
 *
 * @throws ServiceError `api_key_not_found`, `insufficient_scope`
 */
export async function succeedApiKey(
  platform: Platform,
  caller: Caller,
  keyId: string,
  overlapSeconds: number,
): Promise<IssuedApiKey> {
  const successor = await rotateApiKey(platform.store.keyIssuer, caller, keyId, overlapSeconds)
  await forgetKey(platform, keyId)
  return successor
}

/**
 * Refuses the key from now on, here at once and everywhere within seconds.
 *
 * @throws ServiceError `api_key_not_found`, `insufficient_scope`: it may do more than the caller.
 */
export async function endApiKey(platform: Platform, caller: Caller, keyId: string): Promise<ApiKey> {
  const { store, webhooks } = platform
  const key = { ...reachOf(caller), keyId }
  const ended = await store.db.run(getApiKey, key)
  requireGrantable(caller, ended.scopes, ended.integrationIds)
  const revoked = await store.db.run(revokeApiKey, { ...key, actor: caller.keyId })
  await forgetKey(platform, keyId)
  webhooks.wake()
  return revoked
}

/** What processes know of the key is outdated. */
async function forgetKey({ store, control }: Platform, keyId: string): Promise<void> {
  await store.authenticator.forget(keyId)
  control.tell({ type: 'revoked', keyId })
}
