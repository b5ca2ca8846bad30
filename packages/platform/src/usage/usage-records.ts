import { NO_USAGE, type PlatformRun, type UsageRecord } from '@bureau/protocol'
import { and, asc, desc, eq, gte, inArray, lt, sql, type SQL } from 'drizzle-orm'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { cutPage, olderThan, type Page, type PageRequest } from '../db/page.ts'
import { allowanceLedger, runs, usageEntries } from '../db/schema.ts'
import { toUsd } from '../members/allowance-policy.ts'
import { integrationsOf } from '../members/members.repo.ts'
import { runViews } from '../run-records/run-views.ts'
import { RUN_FACTS, type RunFacts, toUsage, USAGE_SUMS } from '../run-records/runs.repo.ts'

type ModelUsage = UsageRecord['models'][number]

export type UsageFilter = {
  readonly integrationId?: string
  readonly consumerId?: string
  readonly usageRequestId?: string
  /** RFC 3339; `from` is included, `to` is not. */
  readonly from?: string
  readonly to?: string
}

type Args = PageRequest & UsageFilter & { readonly ownerId: string; readonly integrationIds: readonly string[] | null }

/** Newest first. */
export const listUsageRecords = tenantOperation(
  { source: import.meta.url, name: 'listUsageRecords', lane: 'interactive', onlyReads: true },
  async (tx, args: Args): Promise<Page<UsageRecord>> => {
    const rows = await tx
      .select(RUN_FACTS)
      .from(runs)
      .where(and(...filtersOf(tx, args), olderThan(runs.createdAt, runs.id, args.after)))
      .orderBy(desc(runs.createdAt), desc(runs.id))
      .limit(args.limit + 1)
    return toRecords(tx, args, rows)
  },
)

/** One page of an export, oldest first; `limit` up to 1000. Ask again with `next` until it is null. */
export const exportUsageRecords = tenantOperation(
  { source: import.meta.url, name: 'exportUsageRecords', lane: 'maintenance', onlyReads: true },
  async (tx, args: Args): Promise<Page<UsageRecord>> => {
    const { after } = args
    const rows = await tx
      .select(RUN_FACTS)
      .from(runs)
      .where(
        and(
          ...filtersOf(tx, args),
          after ? sql`(${runs.createdAt}, ${runs.id}) > (${after[0]}::timestamptz, ${after[1]})` : undefined,
        ),
      )
      .orderBy(asc(runs.createdAt), asc(runs.id))
      .limit(args.limit + 1)
    return toRecords(tx, args, rows)
  },
)

function filtersOf(tx: Tx, args: Args): (SQL | undefined)[] {
  const { ownerId, integrationIds, integrationId, consumerId, usageRequestId, from, to } = args
  return [
    eq(runs.ownerId, ownerId),
    integrationIds ? inArray(runs.integrationId, [...integrationIds]) : undefined,
    integrationId === undefined ? undefined : eq(runs.integrationId, integrationId),
    consumerId === undefined ? undefined : eq(runs.consumerId, consumerId),
    // With their integration, usageRequestIds have an index.
    usageRequestId === undefined
      ? undefined
      : and(eq(runs.usageRequestId, usageRequestId), inArray(runs.integrationId, integrationsOf(tx, ownerId))),
    from === undefined ? undefined : gte(runs.createdAt, new Date(from)),
    to === undefined ? undefined : lt(runs.createdAt, new Date(to)),
  ]
}

async function toRecords(tx: Tx, { ownerId, limit }: Args, rows: readonly RunFacts[]): Promise<Page<UsageRecord>> {
  const { items, next } = cutPage(rows, limit, (row) => [row.createdAt.toISOString(), row.id])
  if (items.length === 0) return { items: [], next }
  const ids = items.map((run) => run.id)
  const [views, models, charges] = [
    await runViews(tx, ownerId, items),
    await modelsOf(tx, ownerId, ids),
    await chargesOf(tx, ownerId, ids),
  ]
  return {
    items: items.map((run, index) => toRecord(run, views[index]!, models.get(run.id), charges.get(run.id))),
    next,
  }
}

type Charge = { readonly debited: UsageRecord['debited']; readonly refunded: boolean }
const NO_CHARGE: Charge = { debited: { messages: 0, tokens: 0, costUsd: 0 }, refunded: false }

function toRecord(run: RunFacts, view: PlatformRun, models: ModelUsage[] = [], charge = NO_CHARGE): UsageRecord {
  return {
    object: 'usage_record',
    runId: run.id,
    chatId: run.chatId,
    apiIntegrationId: run.integrationId,
    consumerId: run.consumerId,
    usageRequestId: run.usageRequestId,
    agent: run.agent,
    status: view.status,
    createdAt: view.createdAt,
    finishedAt: view.finishedAt,
    usage: view.usage ?? NO_USAGE,
    ...charge,
    periodStart: run.periodStart?.toISOString() ?? null,
    models,
  }
}

async function modelsOf(tx: Tx, ownerId: string, runIds: readonly string[]): Promise<Map<string, ModelUsage[]>> {
  const { runId, model } = usageEntries
  const rows = await tx
    .select({ runId, model, priced: sql<boolean>`bool_and(${usageEntries.priced})`, ...USAGE_SUMS })
    .from(usageEntries)
    .where(and(eq(usageEntries.ownerId, ownerId), inArray(runId, [...runIds])))
    .groupBy(runId, model)
    .orderBy(asc(model))
  const byRun = Map.groupBy(rows, (row) => row.runId)
  const toModel = (row: (typeof rows)[number]): ModelUsage => ({
    model: row.model,
    priced: row.priced,
    usage: toUsage(row),
  })
  return new Map([...byRun].map(([id, entries]) => [id, entries.map(toModel)]))
}

async function chargesOf(tx: Tx, ownerId: string, runIds: readonly string[]): Promise<Map<string, Charge>> {
  const debits = (column: unknown) =>
    sql<number>`coalesce(sum(${column}) FILTER (WHERE ${allowanceLedger.kind} = 'debit'), 0)`.mapWith(Number)
  const rows = await tx
    .select({
      runId: allowanceLedger.runId,
      messages: debits(allowanceLedger.messages),
      tokens: debits(allowanceLedger.tokens),
      costMicro: debits(allowanceLedger.costMicro),
      refunded: sql<boolean>`bool_or(${allowanceLedger.kind} = 'refund')`,
    })
    .from(allowanceLedger)
    .where(and(eq(allowanceLedger.ownerId, ownerId), inArray(allowanceLedger.runId, [...runIds])))
    .groupBy(allowanceLedger.runId)
  const toCharge = ({ messages, tokens, costMicro, refunded }: (typeof rows)[number]): Charge => ({
    debited: { messages, tokens, costUsd: toUsd(costMicro) },
    refunded,
  })
  return new Map(rows.map((row) => [row.runId ?? '', toCharge(row)]))
}
