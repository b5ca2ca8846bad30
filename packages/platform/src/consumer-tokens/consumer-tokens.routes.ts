import {
  ConsumerToken,
  ConsumerTokenCreate,
  ConsumerTokenRevoke,
  ConsumerTokensRevoked,
  listOf,
  PageQuery,
} from '@bureau/protocol'
import { type Answered, created, ok, param } from '@bureau/runtime'
import type { z } from 'zod'
import { EXAMPLES } from '../docs/examples.ts'
import { answerPage, type List } from '../http/pages.ts'
import { type Call, jsonRoute, type Route } from '../http/route.ts'
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
  jsonRoute(
    {
      method: 'GET',
      url: '/v1/integrations/:integrationId/consumer_token_revocations',
      id: 'listConsumerTokenRevocations',
      tag: 'Consumer tokens',
      summary: 'List whose tokens were revoked and when: every consumer first, then by consumer',
      scope: 'consumer_tokens',
      query: PageQuery,
      success: { 200: listOf(ConsumerTokensRevoked) },
      errors: ['integration_not_found', 'invalid_cursor'],
    },
    listRevoked,
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

async function listRevoked(
  call: Call<z.output<typeof PageQuery>>,
): Promise<Answered<200, List<ConsumerTokensRevoked>>> {
  const { platform, caller } = call
  return answerPage(call, (page) =>
    readRevocations(platform, caller, { integrationId: param(call, 'integrationId'), ...page }),
  )
}
