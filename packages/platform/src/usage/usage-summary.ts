import { ServiceError, type UsageSummary } from '@bureau/protocol'
import { and, asc, eq, gte, inArray, lt, sql, type SQL } from 'drizzle-orm'
import { sqlstateOf } from '../db/database-error.ts'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { runs, usageEntries } from '../db/schema.ts'
import { isTimeZone } from '../members/allowance-policy.ts'
import { toUsage, USAGE_SUMS } from '../run-records/runs.repo.ts'

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
const DAY_MS = 86_400_000

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

async function summarize(tx: Tx, request: SummaryRequest): Promise<KeyedUsage[]> {
  const { ownerId, integrationIds, from, to, groupBy } = request
  const rows = await tx
    .select({
      key: sql<string>`${keyOf(request)} AS key`,
      runs: sql<number>`count(DISTINCT ${runs.id})`.mapWith(Number),
      failedRuns: sql<number>`count(DISTINCT ${runs.id}) FILTER (WHERE ${runs.state} = 'failed')`.mapWith(Number),
      ...USAGE_SUMS,
      requests: sql<number>`count(${usageEntries.runId})`.mapWith(Number),
    })
    .from(runs)
    .leftJoin(usageEntries, eq(usageEntries.runId, runs.id))
    .where(
      and(
        eq(runs.ownerId, ownerId),
        gte(runs.createdAt, new Date(from)),
        lt(runs.createdAt, new Date(to)),
        integrationIds ? inArray(runs.integrationId, [...integrationIds]) : undefined,
        groupBy === 'model' ? sql`${usageEntries.model} IS NOT NULL` : undefined,
      ),
    )
    .groupBy(sql`key`)
    .orderBy(asc(sql`key`))
    .limit(10_000)
  return rows.map(({ key, runs: count, failedRuns, ...sums }) => ({
    key,
    usage: toUsage(sums),
    runs: count,
    failedRuns,
  }))
}

function keyOf({ groupBy, timeZone }: SummaryRequest): SQL {
  switch (groupBy) {
    case 'day':
      return sql`to_char(${runs.createdAt} AT TIME ZONE ${timeZone}::text, 'YYYY-MM-DD')`
    case 'integration':
      return sql`${runs.integrationId}`
    case 'consumer':
      return sql`coalesce(${runs.consumerId}, '')`
    case 'model':
      return sql`${usageEntries.model}`
  }
}
