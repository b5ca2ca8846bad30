/** A run as the API tells of it, and its usage record. */
export type RunRecord = {
  readonly runId: string
  readonly chatId: string
  readonly usageRequestId: string | null
  readonly consumerId: string | null
  readonly status: string
  readonly error: { readonly code: string; readonly class: string } | null
  readonly usage: RecordedUsage | null
}

type RecordedUsage = {
  readonly request_count: number
  readonly input_tokens: number
  readonly output_tokens: number
  readonly total_tokens: number
}

export type UsageRecord = {
  readonly runId: string
  readonly consumerId: string | null
  readonly usage: RecordedUsage
  readonly debited: { readonly messages: number; readonly tokens: number }
  readonly refunded: boolean
}

const ENDED = new Set(['completed', 'failed', 'cancelled'])

export const isEnded = ({ status }: Pick<RunRecord, 'status'>): boolean => ENDED.has(status)
