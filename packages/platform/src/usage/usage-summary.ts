import { addUsage, ServiceError, type UsageSummary } from '@bureau/protocol'
import { and, asc, type Column, eq, gte, inArray, isNull, lt, ne, sql, type SQL } from 'drizzle-orm'
import { sqlstateOf } from '../db/database-error.ts'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { runs, usageConsumerDays, usageDeltas, usageEntries, usageHalfHours } from '../db/schema.ts'
import { isTimeZone } from '../members/allowance-policy.ts'
import { toUsage, USAGE_SUMS, type UsageSums } from '../run-records/runs.repo.ts'

/** By `key`: the day (`2026-11-20`), integration id, consumer id (empty: none was named) or model. */
type KeyedUsage = UsageSummary['data'][number]

export type SummaryRequest = {
  readonly ownerId: string
  readonly integrationIds: readonly string[] | null
  readonly groupBy: 'day' | 'integration' | 'consumer' | 'model'
  /** RFC 3339; `from` is included, `to` is not. */
  readonly from: string
  readonly to: string
  /** IANA name; says where days begin. */
  readonly timeZone: string
}

const MAX_DAYS = 400
const MAX_KEYS = 10_000
const DAY_MS = 86_400_000
const HALF_HOUR_MS = 1_800_000

/**
 * Usage of the runs that were admitted in a stretch of time, by key, at most 10,000 keys.
 *
 * A run counts for every model that it used.
 *
 * @throws ServiceError `invalid_time_range`: not ascending, longer than 400 days, or an unknown time zone.
 */
export const summarizeUsage = tenantOperation(
  { source: import.meta.url, name: 'summarizeUsage', lane: 'interactive' },
  async (tx, request: SummaryRequest): Promise<KeyedUsage[]> => {
    const lengthMs = Date.parse(request.to) - Date.parse(request.from)
    if (!(lengthMs > 0 && lengthMs <= MAX_DAYS * DAY_MS) || !isTimeZone(request.timeZone))
      throw new ServiceError('invalid_time_range')
    try {
      return await summarize(tx, request)
    } catch (error) {
      throw sqlstateOf(error) === '22023' ? new ServiceError('invalid_time_range') : error
    }
  },
)

/** Sums by key, of ended runs or of runs one by one. */
type Summed = UsageSums & { readonly key: string; readonly runs: number; readonly failedRuns: number }

/**
 * Whole stretches of time are read from kept sums; what is left at both ends, and runs that have not ended, run by run. All as of one
 * moment: a run that ends meanwhile would be missing or counted twice.
 */
async function summarize(tx: Tx, request: SummaryRequest): Promise<KeyedUsage[]> {
  await tx.execute(sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`)
  const kept = keptStretch(request, await hasHalfHourDays(tx, request))
  const parts = [...(kept ? await readSums(tx, request, kept) : []), ...(await sumRuns(tx, request, kept))]
  return [...Map.groupBy(parts, ({ key }) => key)]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .slice(0, MAX_KEYS)
    .map(([key, ofKey]) => toKeyed(key, ofKey))
}

function toKeyed(key: string, parts: readonly Summed[]): KeyedUsage {
  const usage = parts.map(toUsage).reduce((sum, part) => addUsage(sum, part))
  return { key, usage, runs: total(parts, 'runs'), failedRuns: total(parts, 'failedRuns') }
}

const total = (parts: readonly Summed[], name: 'runs' | 'failedRuns'): number =>
  parts.reduce((sum, part) => sum + part[name], 0)

/** RFC 3339; `from` is included, `to` is not. */
type Stretch = { readonly from: string; readonly to: string }

/** What of the time asked for kept sums answer; undefined: nothing. */
function keptStretch({ from, to, groupBy }: SummaryRequest, halfHourDays: boolean): Stretch | undefined {
  if (groupBy === 'day' && !halfHourDays) return undefined
  const unitMs = groupBy === 'consumer' ? DAY_MS : HALF_HOUR_MS
  const begin = Math.ceil(Date.parse(from) / unitMs) * unitMs
  const end = Math.floor(Date.parse(to) / unitMs) * unitMs
  return begin < end ? { from: new Date(begin).toISOString(), to: new Date(end).toISOString() } : undefined
}

/** Whether days of the time zone begin and end at half hours: nearly everywhere, but not in Kathmandu. */
async function hasHalfHourDays(tx: Tx, { groupBy, timeZone, from, to }: SummaryRequest): Promise<boolean> {
  if (groupBy !== 'day') return true
  const isWhole = (at: string) =>
    sql`extract(minute FROM (${at}::timestamptz AT TIME ZONE ${timeZone}::text) - (${at}::timestamptz AT TIME ZONE 'UTC'))::int % 30 = 0`
  const { rows } = await tx.execute<{ whole: boolean }>(sql`SELECT ${isWhole(from)} AND ${isWhole(to)} AS whole`)
  return rows[0]?.whole === true
}

type SumTable = typeof usageHalfHours | typeof usageConsumerDays | typeof usageDeltas

/** The kept sums, and what ended since they were last added to. */
async function readSums(tx: Tx, request: SummaryRequest, { from, to }: Stretch): Promise<Summed[]> {
  const { groupBy } = request
  const between = (beginsAt: Column) => and(gte(beginsAt, new Date(from)), lt(beginsAt, new Date(to)))
  const ofModel = (model: Column) => (groupBy === 'model' ? ne(model, '') : eq(model, ''))
  const { day } = usageConsumerDays
  const kept =
    groupBy === 'consumer'
      ? await sumRows(tx, request, usageConsumerDays, and(gte(day, from.slice(0, 10)), lt(day, to.slice(0, 10))))
      : await sumRows(tx, request, usageHalfHours, and(between(usageHalfHours.beginsAt), ofModel(usageHalfHours.model)))
  const recent = and(between(usageDeltas.beginsAt), ofModel(usageDeltas.model))
  return [...kept, ...(await sumRows(tx, request, usageDeltas, recent))]
}

function sumRows(tx: Tx, request: SummaryRequest, table: SumTable, stretch: SQL | undefined): Promise<Summed[]> {
  return tx
    .select({ key: sql<string>`${keyOf(request, table)} AS key`, ...sumsOf(table) })
    .from(table)
    .where(and(isReached(table, request), stretch))
    .groupBy(sql`key`)
    .orderBy(asc(sql`key`))
    .limit(MAX_KEYS)
    .execute()
}

const isReached = (table: SumTable | typeof runs, { ownerId, integrationIds }: SummaryRequest): SQL | undefined =>
  and(eq(table.ownerId, ownerId), integrationIds ? inArray(table.integrationId, [...integrationIds]) : undefined)

/** The runs that kept sums do not have. */
async function sumRuns(tx: Tx, request: SummaryRequest, kept: Stretch | undefined): Promise<Summed[]> {
  const { groupBy, from, to } = request
  const between = (begin: string, end: string) =>
    and(gte(runs.createdAt, new Date(begin)), lt(runs.createdAt, new Date(end)))
  const missing = kept
    ? [between(from, kept.from), between(kept.to, to), and(between(kept.from, kept.to), isNull(runs.finishedAt))]
    : [between(from, to)]
  const parts: Summed[] = []
  for (const stretch of missing) {
    const rows = await tx
      .select({
        key: sql<string>`${keyOf(request, RUN_COLUMNS)} AS key`,
        runs: sql<number>`count(DISTINCT ${runs.id})`.mapWith(Number),
        failedRuns: sql<number>`count(DISTINCT ${runs.id}) FILTER (WHERE ${runs.state} = 'failed')`.mapWith(Number),
        ...USAGE_SUMS,
        requests: sql<number>`count(${usageEntries.runId})`.mapWith(Number),
      })
      .from(runs)
      .leftJoin(usageEntries, eq(usageEntries.runId, runs.id))
      .where(
        and(
          isReached(runs, request),
          stretch,
          groupBy === 'model' ? sql`${usageEntries.model} IS NOT NULL` : undefined,
        ),
      )
      .groupBy(sql`key`)
      .orderBy(asc(sql`key`))
      .limit(MAX_KEYS)
    parts.push(...rows)
  }
  return parts
}

const { createdAt: beginsAt, integrationId, consumerId } = runs
const RUN_COLUMNS: Keyed = { beginsAt, integrationId, consumerId, model: usageEntries.model }

type Keyed = { readonly integrationId: Column } & { readonly [name in 'beginsAt' | 'consumerId' | 'model']?: Column }

function keyOf({ groupBy, timeZone }: SummaryRequest, { beginsAt, integrationId, consumerId, model }: Keyed): SQL {
  switch (groupBy) {
    case 'day':
      return sql`to_char(${beginsAt} AT TIME ZONE ${timeZone}::text, 'YYYY-MM-DD')`
    case 'integration':
      return sql`${integrationId}`
    case 'consumer':
      return sql`coalesce(${consumerId}, '')`
    case 'model':
      return sql`${model}`
  }
}

function sumsOf(table: SumTable) {
  const sum = (column: Column) => sql<number>`sum(${column})`.mapWith(Number)
  return {
    runs: sum(table.runs),
    failedRuns: sum(table.failedRuns),
    requests: sum(table.requests),
    input: sum(table.inputTokens),
    cached: sum(table.cachedTokens),
    cacheWrite: sum(table.cacheWriteTokens),
    output: sum(table.outputTokens),
    reasoning: sum(table.reasoningTokens),
    cost: sum(table.costUsd),
    estimated: sql<boolean>`bool_or(${table.estimated})`,
  }
}
