import { z } from 'zod'
import { ConsumerId, Id, Time } from './platform-fields.ts'
import { CONSUMER_SCOPES } from './platform-names.ts'

/** Tokens for the pages of consumers: short-lived, for one integration and one consumer. */

export const ConsumerScope = z.enum(CONSUMER_SCOPES)
export type ConsumerScope = z.output<typeof ConsumerScope>

export const ConsumerTokenCreate = z
  .strictObject({
    apiIntegrationId: Id,
    consumerId: ConsumerId,
    scopes: z
      .array(ConsumerScope)
      .min(1)
      .refine((scopes) => new Set(scopes).size === scopes.length, 'must not repeat a scope')
      .default(['chat', 'read'])
      .describe(
        'chat: completions, and its own runs. read: its own chats. upload: files for its own messages. approve: decisions ' +
          'about calls of its own runs, of the tools in `consumerApprovals` of the integration.',
      ),
    expiresInSeconds: z.int().min(60).max(3_600).default(900),
  })
  .meta({ id: 'ConsumerTokenCreate' })

export const ConsumerToken = z
  .object({
    object: z.literal('consumer_token'),
    token: z.string(),
    apiIntegrationId: z.string(),
    consumerId: z.string(),
    scopes: z.array(ConsumerScope),
    createdAt: Time,
    expiresAt: Time,
  })
  .meta({ id: 'ConsumerToken' })
export type ConsumerToken = z.output<typeof ConsumerToken>

export const ConsumerTokenRevoke = z
  .strictObject({
    apiIntegrationId: Id,
    consumerId: ConsumerId.optional().describe('Default: every consumer of the integration.'),
  })
  .meta({ id: 'ConsumerTokenRevoke' })

export const ConsumerTokensRevoked = z
  .object({
    object: z.literal('consumer_tokens_revoked'),
    apiIntegrationId: z.string(),
    consumerId: z.string().nullable().describe('null: every consumer of the integration.'),
    notBefore: Time.describe('Tokens that were made before are refused.'),
  })
  .meta({ id: 'ConsumerTokensRevoked' })
export type ConsumerTokensRevoked = z.output<typeof ConsumerTokensRevoked>
