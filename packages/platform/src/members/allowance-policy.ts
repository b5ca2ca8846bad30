import { ServiceError } from '@bureau/protocol'
import { z } from 'zod'
import type { AllowancePolicy } from '../db/column-types.ts'
import type { allowancePeriods, members } from '../db/schema.ts'

export type MemberRow = typeof members.$inferSelect
export type PeriodRow = typeof allowancePeriods.$inferSelect

/** What a member may spend and has spent in the current period. */
export type AllowanceView = AllowancePolicy & {
  readonly source: 'member' | 'integration_default'
  readonly periodStart: string
  /** Null for `lifetime`. */
  readonly periodEnd: string | null
  /** The next request would be refused. */
  readonly exhausted: boolean
  readonly used: Amounts
  readonly granted: Amounts
  /** Null where there is no limit; never below 0, though a running response may finish above the limit. */
  readonly remaining: {
    readonly messages: number | null
    readonly tokens: number | null
    readonly costUsd: number | null
  }
}

type Amounts = { readonly messages: number; readonly tokens: number; readonly costUsd: number }

const limit = z.int().min(0).nullable().default(null)
/** At most six decimals: a micro-dollar is the smallest amount there is. */
const costLimit = z
  .number()
  .min(0)
  .max(9_000_000_000)
  .refine((usd) => /^\d+(\.\d{1,6})?$/.test(String(usd)), 'must have at most 6 decimals')
  .nullable()
  .default(null)

const Policy = z.strictObject({
  messages: limit,
  tokens: limit,
  costUsd: costLimit,
  period: z.enum(['day', 'week', 'month', 'lifetime']).default('month'),
  timeZone: z.string().max(64).refine(isTimeZone, 'must be an IANA time zone').default('UTC'),
  anchorDay: z.int().min(1).max(28).default(1),
  maxConcurrentRuns: z.int().min(1).max(1000).default(10),
})

/** Unlimited, monthly in UTC, ten runs at a time. */
export const DEFAULT_ALLOWANCE: AllowancePolicy = Object.freeze(Policy.parse({}))

/** @throws ServiceError `invalid_allowance` with the fields that are wrong. */
export function parseAllowancePolicy(input: unknown): AllowancePolicy {
  const parsed = Policy.safeParse(input)
  if (parsed.success) return parsed.data
  const fields = parsed.error.issues.map((issue) => ({
    path: `/${issue.path.join('/')}`,
    code: 'invalid_allowance',
    error: issue.message,
  }))
  throw new ServiceError('invalid_allowance', { fields })
}

/** Known to the runtime, and a name (not an offset or a POSIX rule): the database is asked as well. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+\-/]*$/.test(name)) return false
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: name }))
  } catch {
    return false
  }
}

export const toMicro = (usd: number): number => Math.round(usd * 1_000_000)
export const toUsd = (micro: number): number => micro / 1_000_000

/** The policy as it stands in a member's row. */
export function policyColumns(policy: AllowancePolicy) {
  return {
    limitMessages: policy.messages,
    limitTokens: policy.tokens,
    limitCostMicro: policy.costUsd === null ? null : toMicro(policy.costUsd),
    period: policy.period,
    timeZone: policy.timeZone,
    anchorDay: policy.anchorDay,
    maxConcurrent: policy.maxConcurrentRuns,
  }
}

export function policyOf(member: MemberRow): AllowancePolicy {
  return {
    messages: member.limitMessages,
    tokens: member.limitTokens,
    costUsd: member.limitCostMicro === null ? null : toUsd(member.limitCostMicro),
    period: member.period,
    timeZone: member.timeZone,
    anchorDay: member.anchorDay,
    maxConcurrentRuns: member.maxConcurrent,
  }
}

/** What may still be spent, per unit; null where there is no limit. Negative after an overshoot. */
export function remainingOf(member: MemberRow, period: PeriodRow | null) {
  const left = (limit: number | null, extra: number, used: number): number | null =>
    limit === null ? null : limit + extra - used
  return {
    messages: left(member.limitMessages, period?.extraMessages ?? 0, period?.usedMessages ?? 0),
    tokens: left(member.limitTokens, period?.extraTokens ?? 0, period?.usedTokens ?? 0),
    costMicro: left(member.limitCostMicro, period?.extraCostMicro ?? 0, period?.usedCostMicro ?? 0),
  }
}

/** Admission needs `used < limit + extra` in every limited unit. */
export function isExhausted(member: MemberRow, period: PeriodRow | null): boolean {
  return Object.values(remainingOf(member, period)).some((left) => left !== null && left <= 0)
}

export function allowanceView(
  member: MemberRow,
  period: PeriodRow | null,
  bounds: { readonly start: Date; readonly end: Date },
): AllowanceView {
  const remaining = remainingOf(member, period)
  const floor = (left: number | null): number | null => (left === null ? null : Math.max(0, left))
  const cost = floor(remaining.costMicro)
  return {
    ...policyOf(member),
    source: member.policySource,
    periodStart: bounds.start.toISOString(),
    periodEnd: member.period === 'lifetime' ? null : bounds.end.toISOString(),
    exhausted: isExhausted(member, period),
    used: {
      messages: period?.usedMessages ?? 0,
      tokens: period?.usedTokens ?? 0,
      costUsd: toUsd(period?.usedCostMicro ?? 0),
    },
    granted: {
      messages: period?.extraMessages ?? 0,
      tokens: period?.extraTokens ?? 0,
      costUsd: toUsd(period?.extraCostMicro ?? 0),
    },
    remaining: {
      messages: floor(remaining.messages),
      tokens: floor(remaining.tokens),
      costUsd: cost === null ? null : toUsd(cost),
    },
  }
}
