import { type Allowance, AllowancePolicy } from '@bureau/protocol'
import type { allowancePeriods, members } from '../db/schema.ts'

export type MemberRow = typeof members.$inferSelect
/** What a member may spend in a period; null: without a limit. */
export type Limits = Pick<MemberRow, 'limitMessages' | 'limitTokens' | 'limitCostMicro'>
export type PeriodRow = typeof allowancePeriods.$inferSelect

/** Unlimited, monthly in UTC, ten runs at a time. */
export const DEFAULT_ALLOWANCE: AllowancePolicy = Object.freeze(AllowancePolicy.parse({}))

export const toMicro = (usd: number): number => Math.round(usd * 1_000_000)
export const toUsd = (micro: number): number => micro / 1_000_000

/** The policy in a member's row. */
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
export function remainingOf(member: Limits, period: PeriodRow | null) {
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

/** What a member may spend and has spent in the current period. `remaining` is never below 0. */
export function allowanceView(
  member: MemberRow,
  period: PeriodRow | null,
  bounds: { readonly start: Date; readonly end: Date },
): Allowance {
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
