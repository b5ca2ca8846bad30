import { ConsumerToken, ConsumerTokenCreate, ConsumerTokenRevoke, ConsumerTokensRevoked } from '@bureau/protocol'
import { type Answered, created, ok } from '@bureau/runtime'
import type { z } from 'zod'
import { EXAMPLES } from '../docs/examples.ts'
import { type Call, jsonRoute, type Route } from '../http/route.ts'
import { endConsumerTokens, issueConsumerToken } from './manage-consumer-tokens.ts'

export const consumerTokenRoutes: readonly Route[] = [
  jsonRoute(
    {
      method: 'POST',
      url: '/v1/consumer_tokens',
      id: 'createConsumerToken',
      tag: 'Consumer tokens',
      summary: 'Make a short-lived token that the page of a consumer may hold',
      scope: 'consumer_tokens',
      body: ConsumerTokenCreate,
      success: { 201: ConsumerToken },
      errors: ['integration_not_found', 'insufficient_scope'],
      examples: { request: { ...EXAMPLES.integrationId, consumerId: 'ada', scopes: ['chat', 'read'] } },
    },
    create,
  ),
  jsonRoute(
    {
      method: 'POST',
      url: '/v1/consumer_tokens/revoke',
      id: 'revokeConsumerTokens',
      tag: 'Consumer tokens',
      summary: 'Refuse all tokens that were made until now, of a consumer or of an integration',
      scope: 'consumer_tokens',
      body: ConsumerTokenRevoke,
      success: { 200: ConsumerTokensRevoked },
      errors: ['integration_not_found', 'insufficient_scope'],
    },
    revoke,
  ),
]

async function create({
  platform,
  caller,
  body,
}: Call<unknown, z.output<typeof ConsumerTokenCreate>>): Promise<Answered<201, ConsumerToken>> {
  return created(await issueConsumerToken(platform, caller, body))
}

async function revoke({
  platform,
  caller,
  body,
}: Call<unknown, z.output<typeof ConsumerTokenRevoke>>): Promise<Answered<200, ConsumerTokensRevoked>> {
  return ok(await endConsumerTokens(platform, caller, body))
}
