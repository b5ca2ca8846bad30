import type { Message } from '@bureau/protocol'
import { and, asc, eq, type SQL, sql } from 'drizzle-orm'
import type { ContextAttachment } from '../../attachments/load-attachments.ts'
import type { AttachmentRow } from '../../chats/attachments.repo.ts'
import type { ChatKey } from '../../chats/chats.repo.ts'
import { attachmentPlace } from '../../chats/store-attachments.ts'
import type { RunInputRecord } from '../../db/column-types.ts'
import type { Tx } from '../../db/operation.ts'
import { prepared } from '../../db/prepared.ts'
import { messageAttachments, runs } from '../../db/schema.ts'
import { signInUserOf } from '../../security/credential-name.ts'
import { type Place, unsealText } from '../../security/seal.ts'
import type { CompletionRequest, GivenInput } from './completion-request.ts'
import { readRecordedRun, type RecordedRun } from '../../run-records/recorded-run.repo.ts'
import type { RunRow } from '../../run-records/runs.repo.ts'

/** Everything that the runner needs to know of a run. */
export type RunContext = {
  readonly runId: string
  readonly chatId: string
  readonly integrationId: string
  readonly agent: string
  /** Whose tokens protected tool servers get. */
  readonly userId: string
  readonly input: RunInputRecord
  /** Whether there was anything in the mount of the integration, by its counters. */
  readonly hasFiles: boolean
  readonly userContext: Readonly<Record<string, unknown>> | null
  /** What the request brought besides a message. */
  readonly given: GivenInput | undefined
  /** Milliseconds until its deadline. */
  readonly remainingMs: number
  /** What the process before has recorded; null for a run that begins. */
  readonly recorded: RecordedRun | null
  /** The chat so far, oldest first; the last message with this run's id is the one to answer. */
  readonly history: readonly HistoryMessage[]
  /** What was said before that, or some of it. */
  readonly summarized: Summarized
}

export type HistoryMessage = {
  readonly seq: number
  readonly runId: string
  readonly role: 'user' | 'assistant' | 'system' | 'tool'
  readonly status: 'ok' | 'failed' | 'cancelled' | 'partial'
  readonly item: Message
  readonly attachments: readonly ContextAttachment[]
}

/**
 * What of a chat a model gets: its latest turns, of so many tokens, unless the integration says otherwise. A longer chat costs no more, and
 * leaves the model room to answer; what was said before is still in the chat.
 */
const HISTORY_TOKENS = 100_000
/** Of JSON. Models count about as many. */
const BYTES_PER_TOKEN = 4
/** So many messages are looked at. */
const HISTORY_LIMIT = 2_000

export type StoredMessage = Omit<HistoryMessage, 'attachments'>

/** What was said in a chat up to a message, summed up; null: nothing was yet. */
type Summarized = { readonly summary: string | null; readonly upTo: number }

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
> &
  Pick<RunContext, 'summarized' | 'hasFiles' | 'remainingMs'> & {
    readonly messages: readonly StoredMessage[]
    readonly hasAttachments: boolean
  }

const selectAttachments = prepared((tx, { ownerId, chatId }: ChatKey) =>
  tx
    .select()
    .from(messageAttachments)
    .where(and(eq(messageAttachments.chatId, chatId), eq(messageAttachments.ownerId, ownerId)))
    .orderBy(asc(messageAttachments.messageSeq), asc(messageAttachments.idx)),
)

export async function toRunContext(tx: Tx, run: ContextRow, dataKey: Uint8Array): Promise<RunContext> {
  const chat: ChatKey = { ownerId: run.ownerId, chatId: run.chatId }
  const attachments = run.hasAttachments ? await selectAttachments(tx, chat) : []
  const bySeq = Map.groupBy(attachments, (row) => row.messageSeq)
  const history = fromWholeTurn(run.messages, run.summarized).map((message) => ({
    ...message,
    attachments: (bySeq.get(message.seq) ?? []).map((row) => contextAttachment(row, dataKey)),
  }))
  const { id: runId, chatId, integrationId, agent, input, hasFiles, remainingMs, summarized } = run
  const userId = signInUserOf(run)
  const { userContext, given } = openContext(run, dataKey)
  const recorded = run.attempt > 1 ? await readRecordedRun(tx, { ownerId: run.ownerId, runId }) : null
  const known = { runId, chatId, integrationId, agent, userId, input, hasFiles, remainingMs }
  return { ...known, userContext, given, history, summarized, recorded }
}

/** The messages from the first one of a user: what is left of a turn whose beginning is missing may be an output without its call. */
function fromWholeTurn(messages: readonly StoredMessage[], { upTo }: Summarized): readonly StoredMessage[] {
  if (messages[0]?.seq === upTo + 1) return messages
  return messages.slice(messages.findIndex(beginsTurn))
}

/** What a user says begins a turn. */
export function beginsTurn({ role, item }: StoredMessage): boolean {
  return role === 'user' && !item.callerAgent
}

/** How long a message is, as budgets count it. */
export function bytesOf({ item }: StoredMessage): number {
  return Buffer.byteLength(JSON.stringify(item))
}

/** In bytes of JSON. */
export function historyBudget({ settings }: RunInputRecord): number {
  return (settings.historyTokens ?? HISTORY_TOKENS) * BYTES_PER_TOKEN
}

/** What is sealed of a run until it ends. */
export type SealedContext = Pick<CompletionRequest, 'userContext'> & { readonly given: GivenInput | undefined }

/** Where it is. */
export const contextPlace = (ownerId: string, runId: string): Place => ({
  table: 'runs',
  column: 'context_enc',
  owner: ownerId,
  row: runId,
})

function openContext(run: ContextRow, dataKey: Uint8Array): SealedContext {
  if (!run.contextEnc) return { userContext: null, given: undefined }
  return JSON.parse(unsealText(dataKey, contextPlace(run.ownerId, run.id), run.contextEnc)) as SealedContext
}

function contextAttachment(row: AttachmentRow, dataKey: Uint8Array): ContextAttachment {
  const { id, ownerId, kind, filename, detail, mime, state, urlEnc, blobSha256 } = row
  const sent = state === 'ok' || state === 'pending'
  const url = sent && urlEnc ? unsealText(dataKey, attachmentPlace(ownerId, id), urlEnc) : null
  return { id, kind, filename, detail, mime, sent, url, blobSha256: sent ? blobSha256 : null }
}
