import { isTimeZone, type ServiceError, type UsageSummary } from '@bureau/protocol'
import { and, type Column, eq, inArray, isNotNull, isNull, ne, sql, type SQL } from 'drizzle-orm'
import { sqlstateOf } from '../db/database-error.ts'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { runs, usageConsumerDays, usageDeltas, usageHalfHours, usageQuarterDays } from '../db/schema.ts'
import { refusedField } from '../refused-field.ts'
import { toUsage } from '../run-records/runs.repo.ts'
import { NUMBERS, TOKENS } from './fold-usage.ts'

/** By `key`: the day (`2026-11-20`), integration id, consumer id (empty: none was named) or model. */
type KeyedUsage = UsageSummary['data'][number]

export type SummaryRequest = {
  readonly ownerId: string
  readonly integrationIds: readonly string[] | null
  readonly groupBy: 'day' | 'integration' | 'consumer' | 'model'
  /** RFC 3339; `from` is included, `to` is not; without `to`, until now. */
  readonly from: string
  readonly to?: string | undefined
  /** IANA name; says where days begin. */
  readonly timeZone: string
  /** Only so many keys: those that cost most, the most expensive first. Without it all of them, in their own order. */
  readonly limit?: number | undefined
}

const MAX_DAYS = 400
const MAX_KEYS = 10_000
const DAY_MS = 86_400_000

/**
 * Usage of the runs that were admitted in a stretch of time, by key, at most 10,000 keys.
 *
 * A run counts for every model that it used.
 *
 * @throws ServiceError `invalid_time_range`: not ascending, longer than 400 days, or an unknown time zone.
 */
export const summarizeUsage = tenantOperation(
  { source: import.meta.url, name: 'summarizeUsage', lane: 'interactive', onlyReads: true },
  async (tx, request: SummaryRequest): Promise<KeyedUsage[]> => {
    const { from, to = new Date().toISOString(), timeZone } = request
    requireAscending({ from, to })
    if (!(Date.parse(to) - Date.parse(from) <= MAX_DAYS * DAY_MS))
      throw invalidRange('from', `The time range must be ${MAX_DAYS} days or less.`)
    if (!isTimeZone(timeZone)) throw noTimeZone(timeZone)
    try {
      return await summarize(tx, { ...request, from: inUtc(from), to: request.to && inUtc(request.to) })
    } catch (error) {
      throw sqlstateOf(error) === '22023' ? noTimeZone(timeZone) : error
    }
  },
)

/** As a date, PostgreSQL reads the day that is written, whatever the time zone behind it. */
const inUtc = (time: string): string => new Date(time).toISOString()

export type TimeRange = { readonly from?: string | undefined; readonly to?: string | undefined }

/** @throws ServiceError `invalid_time_range` */
export function requireAscending({ from, to }: TimeRange): void {
  if (from !== undefined && to !== undefined && !(Date.parse(from) < Date.parse(to)))
    throw invalidRange('to', 'The time range is empty: "to" must be later than "from".')
}

const noTimeZone = (name: string): ServiceError =>
  invalidRange('timeZone', `There is no time zone ${JSON.stringify(name)}. Name one like Europe/Berlin.`)

const invalidRange = (parameter: string, message: string): ServiceError =>
  refusedField('invalid_time_range', parameter, message)

/** Kept sums of stretches of one length, which begin at its multiples since the epoch. */
type Kept = { readonly table: SumTable; readonly begins: Column; readonly type: SQL; readonly unitMs: number }
type SumTable = typeof usageConsumerDays | typeof usageQuarterDays | typeof usageHalfHours | typeof usageDeltas

const TIME = sql.raw('timestamptz')
const CONSUMER_DAYS: Kept = {
  table: usageConsumerDays,
  begins: usageConsumerDays.day,
  type: sql.raw('date'),
  unitMs: DAY_MS,
}
const QUARTER_DAYS: Kept = {
  table: usageQuarterDays,
  begins: usageQuarterDays.beginsAt,
  type: TIME,
  unitMs: DAY_MS / 4,
}
const HALF_HOURS: Kept = { table: usageHalfHours, begins: usageHalfHours.beginsAt, type: TIME, unitMs: DAY_MS / 48 }

const KEPT = sql.raw([...NUMBERS, 'estimated'].join(', '))
/**
 * Counts are added up as the numbers that they become in the answer, which are exact up to 2^53: adding bigints is much dearer,
 * because PostgreSQL keeps their sums in memory of its own for each key. Money stays decimal.
 */
const SUMS = sql.raw(
  `${NUMBERS.map((name) => `sum(${name}${name === 'cost_usd' ? '' : '::float8'}) AS ${name}`).join(', ')}, bool_or(estimated) AS estimated`,
)
/** The same numbers of runs and of what each has used. */
const COUNTED = sql.raw(
  [
    'count(*)',
    "count(*) FILTER (WHERE runs.state = 'failed')",
    ...['requests', ...TOKENS].map((name) => `sum(used.${name})::bigint`),
    'sum(used.cost_usd)',
    'bool_or(used.estimated)',
  ].join(', '),
)
/** A run that has ended keeps the sum of its calls. */
const USED_IN_ALL = sql.raw(
  [
    "SELECT coalesce((usage->>'request_count')::bigint, 0) AS requests",
    ...TOKENS.map((name) => `coalesce((usage->>'${name}')::bigint, 0) AS ${name}`),
    "coalesce((usage->>'total_cost')::numeric, 0) AS cost_usd",
    "coalesce((usage->>'estimated')::boolean, false) AS estimated",
  ].join(', '),
)
const SUM_OF_CALLS = `count(*) AS requests, ${TOKENS.map((name) => `coalesce(sum(${name}), 0) AS ${name}`).join(', ')},
  coalesce(sum(cost_usd), 0) AS cost_usd, coalesce(bool_or(estimated), false) AS estimated FROM usage_entries WHERE run_id = runs.id`
const USED_SO_FAR = sql.raw(`SELECT ${SUM_OF_CALLS}`)
const USED_BY_MODEL = sql.raw(`SELECT model, ${SUM_OF_CALLS} GROUP BY model`)

type SumRow = { readonly key: string; readonly estimated: boolean; readonly cost_usd: string } & {
  readonly [name in Exclude<(typeof NUMBERS)[number], 'cost_usd'>]: number
}

/**
 * Sums of long stretches are read where no key and no end of the time asked for lies within them, shorter ones where one
 * does, and single runs where even these are cut, or have not ended. It is one statement, and so one moment: a run that ends
 * meanwhile would be missing or counted twice.
 */
async function summarize(tx: Tx, request: SummaryRequest): Promise<KeyedUsage[]> {
  // A plan for any stretch of time would be one for half of the table; sums of 10,000 keys take 10 MB.
  await tx.execute(sql`SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true),
    set_config('work_mem', '16MB', true)`)
  const cuts = await cutsOf(tx, request)
  const isByConsumer = request.groupBy === 'consumer'
  const finest = isByConsumer ? CONSUMER_DAYS : HALF_HOURS
  const parts = [
    ...(isByConsumer ? [] : [keptSums(request, QUARTER_DAYS, cuts)]),
    keptSums(request, finest, cuts, isByConsumer ? undefined : QUARTER_DAYS),
    recentSums(request, finest, cuts),
    cutRuns(request, finest, cuts),
    openRuns(request),
  ]
  const { limit = MAX_KEYS } = request
  const order = request.limit === undefined ? sql`1` : sql`sum(cost_usd) DESC, sum(runs::float8) DESC, 1`
  const { rows } = await tx.execute<SumRow>(sql`SELECT key::text AS key, ${SUMS}
    FROM (${sql.join(parts, sql` UNION ALL `)}) AS parts (key, ${KEPT}) GROUP BY parts.key ORDER BY ${order} LIMIT ${limit}`)
  return rows.map(toKeyed)
}

function toKeyed(row: SumRow): KeyedUsage {
  const usage = toUsage({
    requests: row.requests,
    input: row.input_tokens,
    cached: row.cached_tokens,
    cacheWrite: row.cache_write_tokens,
    output: row.output_tokens,
    reasoning: row.reasoning_tokens,
    cost: Number(row.cost_usd),
    estimated: row.estimated,
  })
  return { key: row.key, usage, runs: row.runs, failedRuns: row.failed_runs }
}

/** Where one key or the time asked for ends: no sum may reach across. In milliseconds since the epoch. */
type Cuts = readonly number[]

async function cutsOf(tx: Tx, { groupBy, from, to, timeZone }: SummaryRequest): Promise<Cuts> {
  const ends = to === undefined ? [Date.parse(from)] : [Date.parse(from), Date.parse(to)]
  if (groupBy !== 'day') return ends
  const { rows } = await tx.execute<{ at: number }>(sql`
    SELECT extract(epoch FROM day AT TIME ZONE ${timeZone}::text)::float8 * 1000 AS at FROM generate_series(
      date_trunc('day', ${from}::timestamptz AT TIME ZONE ${timeZone}::text) + interval '1 day',
      coalesce(${to ?? null}::timestamptz, now()) AT TIME ZONE ${timeZone}::text, interval '1 day') AS day`)
  return [...ends, ...rows.map(({ at }) => at)]
}

/** The beginnings of the stretches that are cut. */
const cutUnits = ({ unitMs }: Kept, cuts: Cuts): number[] => [
  ...new Set(cuts.filter((at) => at % unitMs !== 0).map((at) => Math.floor(at / unitMs) * unitMs)),
]

const times = (list: readonly number[], type = TIME): SQL =>
  sql`${`{${list.map((at) => new Date(at).toISOString()).join(',')}}`}::${type}[]`

const millis = (count: number): SQL => sql`${count}::int * interval '1 millisecond'`

const isReached = ({ ownerId, integrationIds }: SummaryRequest, table: SumTable | typeof runs): SQL | undefined =>
  and(eq(table.ownerId, ownerId), integrationIds ? inArray(table.integrationId, [...integrationIds]) : undefined)

const isWithin = ({ from, to = 'infinity' }: SummaryRequest, time: Column, type = TIME): SQL =>
  sql`${time} >= ${from}::${type} AND ${time} < ${to}::${type}`

/** Sums of whole runs have no model. */
const isOf = ({ groupBy }: SummaryRequest, table: SumTable): SQL | undefined =>
  'model' in table ? (groupBy === 'model' ? ne(table.model, '') : eq(table.model, '')) : undefined

/** Those of stretches that nothing cuts; with `cutIn`, only in stretches of theirs that are cut. */
function keptSums(request: SummaryRequest, level: Kept, cuts: Cuts, cutIn?: Kept): SQL {
  const { table, begins, type } = level
  const rows = cutIn ? inCut(request, { table, begins, in: cutIn }, cuts) : sql`${table}`
  const isUncut = sql`${begins} <> ALL (${times(cutUnits(level, cuts), type)})`
  return sql`SELECT ${keyOf(request, begins, table)}, ${KEPT} FROM ${rows}
    WHERE ${and(isReached(request, table), cutIn ? undefined : isWithin(request, begins, type), isUncut, isOf(request, table))}`
}

/** What ended since sums were last added to. */
function recentSums(request: SummaryRequest, finest: Kept, cuts: Cuts): SQL {
  const { beginsAt } = usageDeltas
  const which = and(isWithin(request, beginsAt), isUncut(beginsAt, finest, cuts), isOf(request, usageDeltas))
  return sql`SELECT ${keyOf(request, beginsAt, usageDeltas)}, ${KEPT} FROM ${usageDeltas}
    WHERE ${and(isReached(request, usageDeltas), which)}`
}

/** Runs of the shortest stretches that are cut. */
function cutRuns(request: SummaryRequest, finest: Kept, cuts: Cuts): SQL {
  const rows = inCut(request, { table: runs, begins: runs.createdAt, in: finest }, cuts)
  return countRuns(request, rows, isNotNull(runs.finishedAt), USED_IN_ALL)
}

/** Runs that have not ended. */
function openRuns(request: SummaryRequest): SQL {
  return countRuns(request, sql`${runs}`, and(isNull(runs.finishedAt), isWithin(request, runs.createdAt)), USED_SO_FAR)
}

type InCut = { readonly table: SumTable | typeof runs; readonly begins: Column; readonly in: Kept }

/**
 * The rows of a table in stretches that are cut, as far as they are asked for. They are looked up for one stretch after the
 * other, by both of its ends: a planner, which does not know how few they are, would rather read the whole table once.
 */
function inCut(request: SummaryRequest, { table, begins, in: longer }: InCut, cuts: Cuts): SQL {
  const { from, to } = request
  const units = cutUnits(longer, cuts)
  const since = units.map((at) => Math.max(at, Date.parse(from)))
  const until = units.map((at) => Math.min(at + longer.unitMs, to === undefined ? Infinity : Date.parse(to)))
  return sql`unnest(${times(since)}, ${times(until)}) AS cut (since, until) CROSS JOIN LATERAL (SELECT * FROM ${table}
    WHERE ${begins} >= cut.since AND ${begins} < cut.until AND ${isReached(request, table)} OFFSET 0) AS ${table}`
}

function countRuns(request: SummaryRequest, rows: SQL, which: SQL | undefined, used: SQL): SQL {
  const { createdAt, integrationId, consumerId } = runs
  const key = keyOf(request, createdAt, { integrationId, consumerId, model: sql`used.model` })
  return sql`SELECT ${key}, ${COUNTED} FROM ${rows}
      CROSS JOIN LATERAL (${request.groupBy === 'model' ? USED_BY_MODEL : used}) AS used
    WHERE ${and(isReached(request, runs), which)} GROUP BY 1`
}

const isUncut = (time: Column, finest: Kept, cuts: Cuts): SQL =>
  sql`date_bin(${millis(finest.unitMs)}, ${time}, 'epoch') <> ALL (${times(cutUnits(finest, cuts))})`

type Keyed = { readonly integrationId: Column; readonly consumerId?: Column; readonly model?: Column | SQL }

function keyOf({ groupBy, timeZone }: SummaryRequest, at: Column, { integrationId, consumerId, model }: Keyed): SQL {
  switch (groupBy) {
    case 'day':
      return sql`(${at} AT TIME ZONE ${timeZone}::text)::date`
    case 'integration':
      return sql`${integrationId}`
    case 'consumer':
      return sql`coalesce(${consumerId}, '')`
    case 'model':
      return sql`${model}`
  }
}
