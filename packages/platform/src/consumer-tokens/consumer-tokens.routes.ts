import { ConsumerToken, ConsumerTokenCreate, ConsumerTokenRevoke, ConsumerTokensRevoked } from '@bureau/protocol'
import { created, ok, param } from '@bureau/runtime'
import { EXAMPLES } from '../docs/examples.ts'
import { listRoute } from '../http/pages.ts'
import { jsonRoute, type Route } from '../http/route.ts'
import { endConsumerTokens, issueConsumerToken, readRevocations } from './manage-consumer-tokens.ts'

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
    async ({ platform, caller, body }) => created(await issueConsumerToken(platform, caller, body)),
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
    async ({ platform, caller, body }) => ok(await endConsumerTokens(platform, caller, body)),
  ),
  listRoute(
    {
      url: '/v1/integrations/:integrationId/consumer_token_revocations',
      id: 'listConsumerTokenRevocations',
      tag: 'Consumer tokens',
      summary: 'List whose tokens were revoked and when: every consumer first, then by consumer',
      scope: 'consumer_tokens',
      item: ConsumerTokensRevoked,
      errors: ['integration_not_found'],
    },
    (call, page) =>
      readRevocations(call.platform, call.caller, { ...page, integrationId: param(call, 'integrationId') }),
  ),
]
