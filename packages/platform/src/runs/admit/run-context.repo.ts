import type { Message } from '@bureau/protocol'
import { type SQL, sql } from 'drizzle-orm'
import type { RunInputRecord } from '../../db/column-types.ts'
import { runs } from '../../db/schema.ts'
import type { RunRow } from '../../run-records/runs.repo.ts'

/**
 * What of a chat a model gets: its latest turns, of so many tokens, unless the integration says otherwise. A longer chat costs no more, and
 * leaves the model room to answer; what was said before is still in the chat.
 */
const HISTORY_TOKENS = 100_000
/** Of JSON. Models count about as many. */
const BYTES_PER_TOKEN = 4
/** So many messages are looked at. */
const HISTORY_LIMIT = 2_000

/** A message as the records have it. */
export type StoredMessage = {
  readonly seq: number
  readonly runId: string
  readonly role: 'user' | 'assistant' | 'system' | 'tool'
  readonly status: 'ok' | 'failed' | 'cancelled' | 'partial'
  readonly item: Message
}

/** What was said in a chat up to a message, summed up; null: nothing was yet. */
export type Summarized = { readonly summary: string | null; readonly upTo: number }

/** In bytes of JSON. */
export function historyBudget({ settings }: RunInputRecord): number {
  return (settings.historyTokens ?? HISTORY_TOKENS) * BYTES_PER_TOKEN
}

/** In bytes. PostgreSQL stores long items compressed, which says nothing of what a model gets; only those are looked into. */
const LENGTH = sql.raw(
  'CASE WHEN pg_column_compression(item) IS NULL THEN pg_column_size(item) ELSE octet_length(item::text) END',
)

/**
 * What the context of a run takes from other tables, with the messages of its chat as one value. `run` is what the query
 * calls the row of the run; `budget` is in bytes, and the run's own message is read whatever its length.
 */
export const aroundRun = (run: 'runs' | 'run', budget: SQL) => {
  const of = (column: 'id' | 'owner_id' | 'chat_id' | 'integration_id') => sql.raw(`${run}.${column}`)
  return {
    messages: sql<readonly StoredMessage[]>`(
      SELECT coalesce(json_agg(json_build_object(
        'seq', seq, 'runId', run_id, 'role', role, 'status', status, 'item', item) ORDER BY seq), '[]')
      FROM (SELECT *, sum(${LENGTH}) OVER (ORDER BY seq DESC) AS bytes FROM (
        SELECT * FROM messages m WHERE m.chat_id = ${of('chat_id')} AND m.owner_id = ${of('owner_id')}
          AND m.seq > (SELECT summarized_seq FROM chats c WHERE c.id = ${of('chat_id')})
        ORDER BY seq DESC LIMIT ${sql.raw(String(HISTORY_LIMIT))}) latest) measured
      WHERE bytes <= ${budget} OR run_id = ${of('id')})`,
    summarized: sql<Summarized>`coalesce(
      (SELECT json_build_object('summary', summary, 'upTo', summarized_seq) FROM chats c WHERE c.id = ${of('chat_id')}),
      '{"summary":null,"upTo":0}')`,
    hasFiles: sql<boolean>`EXISTS (
      SELECT 1 FROM mount_usage u WHERE u.integration_id = ${of('integration_id')} AND u.file_count > 0)`,
    hasAttachments: sql<boolean>`EXISTS (SELECT 1 FROM message_attachments a WHERE a.chat_id = ${of('chat_id')})`,
  }
}

/** What the context of a run that is there is made of. */
export const contextColumns = {
  id: runs.id,
  ownerId: runs.ownerId,
  chatId: runs.chatId,
  integrationId: runs.integrationId,
  consumerId: runs.consumerId,
  agent: runs.agent,
  input: runs.input,
  contextEnc: runs.contextEnc,
  attempt: runs.attempt,
  remainingMs: sql<number>`(extract(epoch FROM ${runs.deadlineAt} - now()) * 1000)::float8`.mapWith(Number),
  ...aroundRun(
    'runs',
    sql.raw(`coalesce((runs.input->'settings'->>'historyTokens')::int, ${HISTORY_TOKENS}) * ${BYTES_PER_TOKEN}`),
  ),
}

/** As `contextColumns` are read. */
export type ContextRow = Pick<
  RunRow,
  'id' | 'ownerId' | 'chatId' | 'integrationId' | 'consumerId' | 'agent' | 'input' | 'contextEnc' | 'attempt'
> & {
  readonly messages: readonly StoredMessage[]
  /** What was said before these, or some of it. */
  readonly summarized: Summarized
  /** Whether there was anything in the mount of the integration, by its counters. */
  readonly hasFiles: boolean
  readonly hasAttachments: boolean
  /** Milliseconds until its deadline. */
  readonly remainingMs: number
}
