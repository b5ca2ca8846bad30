import { z } from 'zod'
import { ConsumerId, GivenTime, Metadata, PageQuery, queryBoolean, Time, TimeZone } from './platform-fields.ts'

/** Members of an integration and their allowances. */

const MAX_USD = 9_000_000_000
/** A micro-dollar is the smallest amount there is. */
const usd = (schema: z.ZodNumber) =>
  schema.refine((amount) => /^-?\d+(\.\d{1,6})?$/.test(String(amount)), 'must have at most 6 decimals')

const limit = z.int().min(0).nullable().default(null)

/** Null: unlimited. 0: nothing is allowed. */
export const AllowancePolicy = z
  .strictObject({
    messages: limit,
    tokens: limit,
    costUsd: usd(z.number().min(0).max(MAX_USD)).nullable().default(null),
    period: z.enum(['day', 'week', 'month', 'lifetime']).default('month'),
    timeZone: TimeZone.default('UTC').describe('IANA name.'),
    anchorDay: z.int().min(1).max(28).default(1).describe('First day of a month period.'),
    maxConcurrentRuns: z.int().min(1).max(1000).default(10),
  })
  .meta({ id: 'AllowancePolicy' })
export type AllowancePolicy = z.output<typeof AllowancePolicy>

const Amounts = z.object({ messages: z.int(), tokens: z.int(), costUsd: z.number() })

export const Allowance = z
  .object({
    messages: z.int().nullable(),
    tokens: z.int().nullable(),
    costUsd: z.number().nullable(),
    period: z.enum(['day', 'week', 'month', 'lifetime']),
    timeZone: z.string(),
    anchorDay: z.int(),
    maxConcurrentRuns: z.int(),
    source: z.enum(['member', 'integration_default']),
    periodStart: Time,
    periodEnd: Time.nullable(),
    exhausted: z.boolean().describe('True: the next completion is refused with 429.'),
    used: Amounts,
    granted: Amounts,
    remaining: z.object({
      messages: z.int().nullable(),
      tokens: z.int().nullable(),
      costUsd: z.number().nullable(),
    }),
  })
  .meta({ id: 'Allowance' })
export type Allowance = z.output<typeof Allowance>

export const Member = z
  .object({
    object: z.literal('member'),
    id: z.string(),
    apiIntegrationId: z.string(),
    consumerId: z.string(),
    displayName: z.string().nullable(),
    metadata: z.record(z.string(), z.string()),
    status: z.enum(['active', 'inactive']),
    activeRuns: z.int(),
    version: z.int(),
    createdAt: Time,
    updatedAt: Time,
    allowance: Allowance,
  })
  .meta({ id: 'Member' })
export type Member = z.output<typeof Member>

const DisplayName = z.string().max(200).nullable()

export const MemberCreate = z
  .strictObject({
    consumerId: ConsumerId,
    displayName: DisplayName.optional(),
    metadata: Metadata.optional(),
    status: z.enum(['active', 'inactive']).default('active'),
    allowance: AllowancePolicy.nullable().optional().describe("Null: the integration's default."),
  })
  .meta({ id: 'MemberCreate' })

export const MemberBatch = z
  .strictObject({ members: z.array(MemberCreate).min(1).max(500) })
  .meta({ id: 'MemberBatch' })

export const MemberBatchResult = z
  .object({
    results: z.array(
      z.object({
        consumerId: z.string(),
        status: z.enum(['created', 'exists', 'error']),
        code: z.string().optional(),
      }),
    ),
  })
  .meta({ id: 'MemberBatchResult' })

export const MemberPatch = z
  .strictObject({
    displayName: DisplayName.optional(),
    metadata: Metadata.optional(),
    status: z.enum(['active', 'inactive']).optional(),
  })
  .refine((changes) => Object.keys(changes).length > 0, 'must change something')
  .meta({ id: 'MemberPatch' })

export const MemberListQuery = PageQuery.extend({
  status: z.enum(['active', 'inactive']).optional(),
  exhausted: queryBoolean.optional(),
})

export const AdjustmentCreate = z
  .strictObject({
    kind: z.enum(['grant', 'correction', 'backfill']),
    messages: z.int().min(-1_000_000_000).max(1_000_000_000).optional(),
    tokens: z.int().min(-1_000_000_000_000).max(1_000_000_000_000).optional(),
    costUsd: usd(z.number().min(-1_000_000).max(1_000_000)).optional(),
    note: z.string().min(1).max(500),
    occurredAt: GivenTime.optional().describe('backfill only: the amount goes to the period of that moment.'),
  })
  .refine(
    ({ messages, tokens, costUsd }) => messages !== undefined || tokens !== undefined || costUsd !== undefined,
    'must name messages, tokens or costUsd',
  )
  .meta({ id: 'AdjustmentCreate' })

export const LedgerEntry = z
  .object({
    id: z.string(),
    kind: z.enum(['debit', 'refund', 'grant', 'correction', 'backfill', 'carry']),
    runId: z.string().nullable(),
    messages: z.int(),
    tokens: z.int(),
    costUsd: z.number(),
    estimated: z.boolean().describe('Tokens and cost are estimated: a provider has not told the usage of this run.'),
    periodStart: Time,
    note: z.string().nullable(),
    actor: z.string().nullable(),
    createdAt: Time,
  })
  .meta({ id: 'LedgerEntry' })
export type LedgerEntry = z.output<typeof LedgerEntry>

export const LedgerQuery = PageQuery.extend({ periodStart: GivenTime.optional() })
