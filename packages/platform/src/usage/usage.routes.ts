import { UsageExportQuery, UsageRecord, UsageRecordsQuery, UsageSummary, UsageSummaryQuery } from '@bureau/protocol'
import { type Answered, ok, streamResponse } from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import type { z } from 'zod'
import { requireScope } from '../caller.ts'
import type { Page, Position } from '../db/page.ts'
import { listRoute } from '../http/pages.ts'
import { present } from '../http/present.ts'
import { type Call, jsonRoute, rawRoute, type Route } from '../http/route.ts'
import { USAGE_CSV_HEADER, usageCsvLine } from './usage-csv.ts'
import { exportUsageRecords, listUsageRecords, type UsageFilter } from './usage-records.ts'
import { requireAscending, summarizeUsage, type TimeRange } from './usage-summary.ts'

const DAY_MS = 86_400_000
const DEFAULT_DAYS = 30
const EXPORT_PAGE = 500

export const usageRoutes: readonly Route[] = [
  listRoute(
    {
      url: '/v1/usage/records',
      id: 'listUsageRecords',
      tag: 'Usage',
      summary: 'List what runs spent, newest first',
      scope: 'usage:read',
      query: UsageRecordsQuery,
      item: UsageRecord,
      errors: ['invalid_time_range'],
    },
    async (call, asked) => {
      const { ownerId, integrationIds } = call.caller
      const wanted = { ...asked, ...filterOf(call), ownerId, integrationIds }
      return call.platform.store.db.run(listUsageRecords, wanted)
    },
  ),
  jsonRoute(
    {
      method: 'GET',
      url: '/v1/usage/summary',
      id: 'summarizeUsage',
      tag: 'Usage',
      summary: 'Sum usage by day, integration, consumer or model; at most 400 days',
      scope: 'usage:read',
      query: UsageSummaryQuery,
      success: { 200: UsageSummary },
      errors: ['invalid_time_range'],
    },
    summarize,
  ),
  rawRoute(
    {
      method: 'GET',
      url: '/v1/usage/export',
      id: 'exportUsage',
      tag: 'Usage',
      summary: 'Download usage records, oldest first',
      scope: 'usage:read',
      query: UsageExportQuery,
      success: {
        200: {
          contentType: 'text/csv',
          otherContentType: 'application/jsonl',
          description: 'One line for each run, or JSON lines.',
        },
      },
      errors: ['invalid_time_range'],
    },
    download,
  ),
]

function filterOf(call: Call<TimeRange & { apiIntegrationId?: string | undefined }>): UsageFilter {
  const { caller, query } = call
  requireAscending(query)
  const { apiIntegrationId, from, to } = query
  if (apiIntegrationId !== undefined) requireScope(caller, 'usage:read', apiIntegrationId)
  return present({ integrationId: apiIntegrationId, from, to })
}

async function summarize(call: Call<z.output<typeof UsageSummaryQuery>>): Promise<Answered<200, UsageSummary>> {
  const { platform, caller, query } = call
  const { ownerId, integrationIds } = caller
  const { groupBy, apiIntegrationId, timeZone = 'UTC', to, limit } = query
  if (apiIntegrationId !== undefined) requireScope(caller, 'usage:read', apiIntegrationId)
  const end = to === undefined ? Date.now() : Date.parse(to)
  const from = query.from ?? new Date(end - DEFAULT_DAYS * DAY_MS).toISOString()
  const only = apiIntegrationId === undefined ? integrationIds : [apiIntegrationId]
  const data = await platform.store.db.run(summarizeUsage, {
    ownerId,
    integrationIds: only,
    groupBy,
    from,
    to,
    timeZone,
    limit,
  })
  return ok({ object: 'usage_summary', data })
}

async function download(call: Call<z.output<typeof UsageExportQuery>>, reply: FastifyReply): Promise<void> {
  const { format } = call.query
  const filter = filterOf(call)
  const csv = format === 'csv'
  reply
    .header('content-disposition', `attachment; filename="usage.${format}"`)
    .header('x-content-type-options', 'nosniff')
  await streamResponse(reply, {
    contentType: csv ? 'text/csv; charset=utf-8' : 'application/jsonl; charset=utf-8',
    chunks: pagesOf(call, filter, csv),
    keepalive: false,
    onClientLost: () => {},
  })
}

async function* pagesOf({ platform, caller }: Call, filter: UsageFilter, csv: boolean): AsyncGenerator<string, void> {
  const { ownerId, integrationIds } = caller
  if (csv) yield USAGE_CSV_HEADER
  for (let after: Position | null = null; ;) {
    const wanted = { ownerId, integrationIds, ...filter, limit: EXPORT_PAGE, after }
    const page: Page<UsageRecord> = await platform.store.db.run(exportUsageRecords, wanted)
    yield page.items.map((record) => (csv ? usageCsvLine(record) : `${JSON.stringify(record)}\n`)).join('')
    if (!page.next) return
    after = page.next
  }
}
