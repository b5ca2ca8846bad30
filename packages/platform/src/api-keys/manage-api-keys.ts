import type { Platform } from '../context.ts'
import type { Page, PageRequest } from '../db/page.ts'
import { type ApiKeyView, getApiKey, listApiKeys, revokeApiKey } from './api-keys.repo.ts'
import type { Caller } from './caller.ts'

/** Newest first. */
export function readApiKeys({ store }: Platform, { ownerId }: Caller, page: PageRequest): Promise<Page<ApiKeyView>> {
  return store.db.run(listApiKeys, { ownerId, ...page })
}

/** @throws ServiceError `api_key_not_found` */
export function readApiKey({ store }: Platform, { ownerId }: Caller, keyId: string): Promise<ApiKeyView> {
  return store.db.run(getApiKey, { ownerId, keyId })
}

/** Refuses the key from now on, here at once and everywhere within seconds. @throws ServiceError `api_key_not_found` */
export async function endApiKey({ store, control }: Platform, caller: Caller, keyId: string): Promise<ApiKeyView> {
  const { ownerId, keyId: actor } = caller
  const revoked = await store.db.run(revokeApiKey, { ownerId, keyId, actor })
  await store.authenticator.forget(keyId)
  control.tell({ type: 'revoked', keyId })
  return revoked
}
