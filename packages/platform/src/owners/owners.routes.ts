import { ApiKey, IssuedApiKey, Owner, OwnerCreate, OwnerPatch, OperatorKeyCreate } from '@bureau/protocol'
import { type Answered, created, ok, param } from '@bureau/runtime'
import type { z } from 'zod'
import { listRoute } from '../http/pages.ts'
import { present } from '../http/present.ts'
import { type Call, jsonRoute, type Route } from '../http/route.ts'
import { Operator } from './operator.ts'

/** For who runs the installation, with `PLATFORM_OPERATOR_KEY`. They are not part of what owners see of the API. */
export const operatorRoutes: readonly Route[] = [
  jsonRoute(
    {
      ...operatorRow('POST', '/v1/admin/owners', 'createOwner'),
      summary: 'Create an owner, with an integration of every agency unless it wants none',
      body: OwnerCreate,
      success: { 201: Owner },
      errors: [],
    },
    async (call) => created(await operatorOf(call).createOwner(call.body)),
  ),
  listRoute(
    {
      ...operatorRow('GET', '/v1/admin/owners', 'listOwners'),
      summary: 'List owners, newest first',
      item: Owner,
    },
    (call, page) => operatorOf(call).listOwners(page),
  ),
  jsonRoute(
    {
      ...operatorRow('PATCH', '/v1/admin/owners/:ownerId', 'changeOwner'),
      summary: 'Rename an owner, disable or enable it, or have it get every agency',
      body: OwnerPatch,
      success: { 200: Owner },
      errors: ['owner_not_found'],
    },
    async (call) => ok(await operatorOf(call).changeOwner(param(call, 'ownerId'), call.body)),
  ),
  jsonRoute(
    {
      ...operatorRow('POST', '/v1/admin/owners/:ownerId/api_keys', 'createOwnerKey'),
      summary: 'Create an API key of an owner; its token is shown this once',
      body: OperatorKeyCreate,
      success: { 201: IssuedApiKey },
      errors: ['owner_not_found'],
    },
    createKey,
  ),
  listRoute(
    {
      ...operatorRow('GET', '/v1/admin/owners/:ownerId/api_keys', 'listOwnerKeys'),
      summary: 'List the API keys of an owner, newest first',
      item: ApiKey,
      errors: ['owner_not_found'],
    },
    (call, page) => operatorOf(call).listKeys(param(call, 'ownerId'), page),
  ),
  jsonRoute(
    {
      ...operatorRow('DELETE', '/v1/admin/owners/:ownerId/api_keys/:keyId', 'revokeOwnerKey'),
      summary: 'Revoke an API key of an owner; runs that it admitted go on',
      success: { 200: ApiKey },
      errors: ['api_key_not_found', 'owner_not_found'],
    },
    async (call) => {
      const revoked = await operatorOf(call).revokeKey(param(call, 'ownerId'), param(call, 'keyId'))
      call.platform.control.tell({ type: 'revoked', keyId: revoked.id })
      return ok(revoked)
    },
  ),
]

/** What all rows of the operator have in common. */
function operatorRow<Method extends 'GET' | 'POST' | 'PATCH' | 'DELETE'>(method: Method, url: string, id: string) {
  return { method, url, id, tag: 'Operator', scope: null, operator: true } as const
}

const operatorOf = ({ platform }: Pick<Call, 'platform'>): Operator => new Operator(platform)

async function createKey(
  call: Call<unknown, z.output<typeof OperatorKeyCreate>>,
): Promise<Answered<201, IssuedApiKey>> {
  const { name, scopes, expiresAt } = call.body
  const key = { name, ...present({ scopes }), expiresAt: expiresAt == null ? null : new Date(expiresAt) }
  return created(await operatorOf(call).createKey(param(call, 'ownerId'), key))
}
