import { z } from 'zod'
import { GivenTime, Id, Time } from './platform-fields.ts'
import { AllowancePolicy } from './platform-members-api.ts'
import { API_KEY_SCOPES } from './platform-names.ts'

/** Integrations, the agencies behind them, API keys, and who changed what. */

const Origin = z
  .string()
  .max(300)
  .refine((text) => URL.parse(text)?.origin === text, 'must be an origin, such as https://app.example.com')

const settings = {
  name: z.string().min(1).max(200),
  description: z.string().max(2000).nullable().optional(),
  agencyId: Id.describe('An agency of this deployment: see GET /v1/agencies.'),
  defaultAgent: z.string().min(1).max(128).optional().describe('Default: the first entry point of the agency.'),
  textOnlyMode: z.boolean().optional().describe('Completions answer in plain text.'),
  memberAllowancesEnabled: z
    .boolean()
    .optional()
    .describe('Completions name a registered member and are charged to its allowance.'),
  membersRequired: z
    .boolean()
    .optional()
    .describe('Completions name a registered member, also without allowances. Default false.'),
  allowedOrigins: z
    .array(Origin)
    .max(50)
    .optional()
    .describe('Origins of pages that may use consumer tokens, such as `https://app.example.com`. Default: none.'),
  consumerApprovals: z
    .array(z.string().min(1).max(256))
    .max(100)
    .optional()
    .describe('Tools about whose calls the consumer who has asked may decide, with a consumer token. Default: none.'),
  defaultAllowance: AllowancePolicy.optional(),
  onDisconnect: z
    .enum(['continue', 'cancel'])
    .optional()
    .describe('cancel: a run that nobody follows for 10 seconds is cancelled.'),
  whenRunnerLost: z
    .enum(['resume', 'fail'])
    .optional()
    .describe(
      'fail: a run whose process dies fails with `runner_lost`. resume (default): another process goes on with it.',
    ),
  chatBinding: z.enum(['none', 'consumer']).optional().describe('consumer: chats belong to who opened them.'),
  runTimeoutSeconds: z.int().min(30).max(7200).optional(),
  maxTurns: z.int().min(1).max(200).optional(),
  historyTokens: z
    .int()
    .min(1_000)
    .max(1_000_000)
    .optional()
    .describe('How much of a chat its model gets, in tokens of four bytes: the latest whole turns. Default 100,000.'),
  retentionDays: z.int().min(1).max(3650).nullable().optional(),
  status: z.enum(['active', 'disabled']).optional(),
}

export const IntegrationCreate = z.strictObject(settings).meta({ id: 'IntegrationCreate' })

export const IntegrationPatch = z
  .strictObject({ ...settings, name: settings.name.optional(), agencyId: settings.agencyId.optional() })
  .refine((changes) => Object.keys(changes).length > 0, 'must change something')
  .meta({ id: 'IntegrationPatch' })

export const Integration = z
  .object({
    object: z.literal('integration'),
    apiIntegrationId: z.string(),
    name: z.string(),
    description: z.string().nullable(),
    agencyId: z.string(),
    defaultAgent: z.string(),
    agencyDeployed: z
      .boolean()
      .describe('False: this deployment lacks the agency, and completions are refused with `unknown_agency`.'),
    agents: z.array(z.string()).describe('Entry-point agents; empty when this deployment lacks the agency.'),
    textOnlyMode: z.boolean(),
    memberAllowancesEnabled: z.boolean(),
    membersRequired: z.boolean(),
    allowedOrigins: z.array(z.string()),
    consumerApprovals: z.array(z.string()),
    defaultAllowance: z.looseObject({ period: z.string() }),
    onDisconnect: z.enum(['continue', 'cancel']),
    whenRunnerLost: z.enum(['resume', 'fail']),
    chatBinding: z.enum(['none', 'consumer']),
    runTimeoutSeconds: z.int(),
    maxTurns: z.int(),
    historyTokens: z.int(),
    storage: z.object({ quotaBytes: z.int(), usedBytes: z.int(), fileCount: z.int() }),
    retentionDays: z.int().nullable(),
    status: z.enum(['active', 'disabled']),
    version: z.int(),
    createdAt: Time,
    updatedAt: Time,
  })
  .meta({ id: 'Integration' })
export type Integration = z.output<typeof Integration>

export const DeleteIntegrationQuery = z.strictObject({
  cancelRuns: z.enum(['true', 'false']).optional().describe('true: active runs are cancelled first.'),
})

export const AgencyList = z
  .object({
    object: z.literal('list'),
    data: z.array(
      z.object({
        agencyId: z.string(),
        name: z.string(),
        version: z.string().describe('Another one when its definition is: see `agencyVersion` of runs.'),
        agents: z.array(z.object({ name: z.string(), entryPoint: z.boolean() })),
      }),
    ),
  })
  .meta({ id: 'AgencyList' })

export const ApiKeyScope = z.enum(API_KEY_SCOPES)
export type ApiKeyScope = z.output<typeof ApiKeyScope>

export const ApiKeyCreate = z
  .strictObject({
    name: z.string().min(1).max(100),
    scopes: z
      .array(ApiKeyScope)
      .min(1)
      .refine((scopes) => new Set(scopes).size === scopes.length, 'must not repeat a scope')
      .optional()
      .describe('Default: all. Never more than the calling key has.'),
    integrationIds: z.array(Id).max(100).nullable().optional().describe('Null: every integration.'),
    expiresAt: GivenTime.nullable().optional(),
  })
  .meta({ id: 'ApiKeyCreate' })

/** What an operator may name of a key of an owner. */
export const OperatorKeyCreate = ApiKeyCreate.omit({ integrationIds: true }).meta({ id: 'OperatorKeyCreate' })

export const ApiKeyRotate = z
  .strictObject({
    overlapSeconds: z.int().min(0).max(604_800).default(0).describe('How long the old key still works.'),
  })
  .meta({ id: 'ApiKeyRotate' })

export const ApiKey = z
  .object({
    object: z.literal('api_key'),
    id: z.string(),
    name: z.string(),
    hint: z.string().describe('The last four characters of the token.'),
    scopes: z.array(z.string()),
    integrationIds: z.array(z.string()).nullable(),
    createdAt: Time,
    expiresAt: Time.nullable(),
    lastUsedAt: Time.nullable(),
    revokedAt: Time.nullable(),
  })
  .meta({ id: 'ApiKey' })
export type ApiKey = z.output<typeof ApiKey>

export const IssuedApiKey = ApiKey.extend({
  token: z.string().nullable().describe('Shown this once: null when an Idempotency-Key is repeated.'),
}).meta({ id: 'IssuedApiKey' })
export type IssuedApiKey = z.output<typeof IssuedApiKey>

export const AuditEntry = z
  .object({
    object: z.literal('audit_entry'),
    id: z.string(),
    actor: z.string().describe('The id of the API key that acted, or `operator`.'),
    action: z.string().describe('`noun.verb`, e.g. `integration.deleted`.'),
    target: z.string().describe('The id of what was changed.'),
    details: z.record(z.string(), z.unknown()).describe('Ids, names of fields and counts; never content.'),
    createdAt: Time,
  })
  .meta({ id: 'AuditEntry' })
export type AuditEntry = z.output<typeof AuditEntry>
