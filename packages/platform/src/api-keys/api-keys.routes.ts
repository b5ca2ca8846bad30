import { ApiKey, ApiKeyCreate, ApiKeyRotate, IssuedApiKey } from '@bureau/protocol'
import { type Answered, created, ok, param } from '@bureau/runtime'
import type { z } from 'zod'
import { listRoute } from '../http/pages.ts'
import { present } from '../http/present.ts'
import { type Call, jsonRoute, type Route } from '../http/route.ts'
import { createApiKey } from './create-api-key.ts'
import { endApiKey, readApiKey, readApiKeys, succeedApiKey } from './manage-api-keys.ts'

export const apiKeyRoutes: readonly Route[] = [
  jsonRoute(
    {
      method: 'POST',
      url: '/v1/api_keys',
      id: 'createApiKey',
      tag: 'API keys',
      summary: 'Create an API key; its token is shown this once',
      scope: 'keys',
      idempotent: true,
      shownOnce: ['token'],
      body: ApiKeyCreate,
      success: { 201: IssuedApiKey },
      errors: ['insufficient_scope', 'integration_not_found'],
      examples: { request: { name: 'backend', scopes: ['runs', 'chats:read'] } },
    },
    create,
  ),
  listRoute(
    {
      url: '/v1/api_keys',
      id: 'listApiKeys',
      tag: 'API keys',
      summary: 'List API keys, newest first',
      scope: 'keys',
      item: ApiKey,
    },
    ({ platform, caller }, page) => readApiKeys(platform, caller, page),
  ),
  jsonRoute(
    {
      method: 'GET',
      url: '/v1/api_keys/:keyId',
      id: 'getApiKey',
      tag: 'API keys',
      summary: 'Get an API key, without its token',
      scope: 'keys',
      success: { 200: ApiKey },
      errors: ['api_key_not_found'],
    },
    async (call) => ok(await readApiKey(call.platform, call.caller, param(call, 'keyId'))),
  ),
  jsonRoute(
    {
      method: 'POST',
      url: '/v1/api_keys/:keyId/rotate',
      id: 'rotateApiKey',
      tag: 'API keys',
      summary: 'Replace an API key; the old one works on for overlapSeconds',
      scope: 'keys',
      idempotent: true,
      shownOnce: ['token'],
      body: ApiKeyRotate,
      bodyOptional: true,
      success: { 201: IssuedApiKey },
      errors: ['api_key_not_found', 'insufficient_scope'],
    },
    async (call) =>
      created(await succeedApiKey(call.platform, call.caller, param(call, 'keyId'), call.body.overlapSeconds)),
  ),
  jsonRoute(
    {
      method: 'DELETE',
      url: '/v1/api_keys/:keyId',
      id: 'revokeApiKey',
      tag: 'API keys',
      summary: 'Revoke an API key; runs that it admitted go on',
      scope: 'keys',
      success: { 200: ApiKey },
      errors: ['api_key_not_found', 'insufficient_scope'],
    },
    async (call) => ok(await endApiKey(call.platform, call.caller, param(call, 'keyId'))),
  ),
]

async function create({
  platform,
  caller,
  body,
}: Call<unknown, z.output<typeof ApiKeyCreate>>): Promise<Answered<201, IssuedApiKey>> {
  const { name, expiresAt, ...limits } = body
  const key = { name, ...present(limits), expiresAt: expiresAt == null ? null : new Date(expiresAt) }
  return created(await createApiKey(platform.store.keyIssuer, caller, key))
}
