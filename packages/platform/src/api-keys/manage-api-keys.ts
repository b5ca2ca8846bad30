import type { ApiKey } from '@bureau/protocol'
import type { Platform } from '../context.ts'
import type { Page, PageRequest } from '../db/page.ts'
import { getApiKey, listApiKeys, revokeApiKey } from './api-keys.repo.ts'
import { type Caller, requireGrantable } from '../caller.ts'

/** The keys that the caller manages, newest first. */
export function readApiKeys({ store }: Platform, caller: Caller, page: PageRequest): Promise<Page<ApiKey>> {
  const { ownerId, integrationIds } = caller
  return store.db.run(listApiKeys, { ownerId, integrationIds, ...page })
}

/** @throws ServiceError `api_key_not_found` */
export function readApiKey({ store }: Platform, caller: Caller, keyId: string): Promise<ApiKey> {
  const { ownerId, integrationIds } = caller
  return store.db.run(getApiKey, { ownerId, integrationIds, keyId })
}

/**
 * Refuses the key from now on, here at once and everywhere within seconds.
 *
 * @throws ServiceError `api_key_not_found`, `insufficient_scope`: it may do more than the caller.
 */
export async function endApiKey(
  { store, control, webhooks }: Platform,
  caller: Caller,
  keyId: string,
): Promise<ApiKey> {
  const { ownerId, integrationIds, keyId: actor } = caller
  const ended = await store.db.run(getApiKey, { ownerId, integrationIds, keyId })
  requireGrantable(caller, ended.scopes, ended.integrationIds)
  const revoked = await store.db.run(revokeApiKey, { ownerId, integrationIds, keyId, actor })
  await store.authenticator.forget(keyId)
  control.tell({ type: 'revoked', keyId })
  webhooks.wake()
  return revoked
}
