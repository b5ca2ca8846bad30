import type { UsageRecord } from '@bureau/protocol'

const COLUMNS: Readonly<Record<string, (record: UsageRecord) => string | number | boolean | null>> = {
  runId: (record) => record.runId,
  chatId: (record) => record.chatId,
  apiIntegrationId: (record) => record.apiIntegrationId,
  consumerId: (record) => record.consumerId,
  usageRequestId: (record) => record.usageRequestId,
  agent: (record) => record.agent,
  status: (record) => record.status,
  createdAt: (record) => record.createdAt,
  finishedAt: (record) => record.finishedAt,
  requestCount: (record) => record.usage.request_count,
  inputTokens: (record) => record.usage.input_tokens,
  cachedTokens: (record) => record.usage.cached_tokens,
  outputTokens: (record) => record.usage.output_tokens,
  totalTokens: (record) => record.usage.total_tokens,
  totalCostUsd: (record) => record.usage.total_cost,
  debitedMessages: (record) => record.debited.messages,
  debitedTokens: (record) => record.debited.tokens,
  debitedCostUsd: (record) => record.debited.costUsd,
  refunded: (record) => record.refunded,
  periodStart: (record) => record.periodStart,
  estimated: (record) => record.usage.estimated ?? false,
}

/** The first line of an export, with its line end. */
export const USAGE_CSV_HEADER = `${Object.keys(COLUMNS).join(',')}\r\n`

/** One line of an export (RFC 4180), with its line end. */
export function usageCsvLine(record: UsageRecord): string {
  return `${Object.values(COLUMNS)
    .map((read) => csvCell(read(record)))
    .join(',')}\r\n`
}

/** Text that a spreadsheet would take for a formula gets an apostrophe in front. */
function csvCell(value: string | number | boolean | null): string {
  if (value === null) return ''
  if (typeof value !== 'string') return String(value)
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
