import { and, asc, eq } from 'drizzle-orm'
import type { ContextAttachment } from '../../attachments/load-attachments.ts'
import type { AttachmentRow } from '../../chats/attachments.repo.ts'
import type { ChatKey } from '../../chats/chats.repo.ts'
import { attachmentPlace } from '../../chats/store-attachments.ts'
import type { Tx } from '../../db/operation.ts'
import { prepared } from '../../db/prepared.ts'
import { messageAttachments } from '../../db/schema.ts'
import { signInUserOf } from '../../security/credential-name.ts'
import { type Place, unsealText } from '../../security/seal.ts'
import type { CompletionRequest, GivenInput } from './completion-request.ts'
import { readRecordedRun, type RecordedRun } from '../../run-records/recorded-run.repo.ts'
import type { ContextRow, StoredMessage, Summarized } from './run-context.repo.ts'

/** Everything that the runner needs to know of a run. */
export type RunContext = Pick<
  ContextRow,
  'chatId' | 'integrationId' | 'agent' | 'input' | 'hasFiles' | 'remainingMs' | 'summarized'
> & {
  readonly runId: string
  /** Whose tokens protected tool servers get. */
  readonly userId: string
  readonly userContext: Readonly<Record<string, unknown>> | null
  /** What the request brought besides a message. */
  readonly given: GivenInput | undefined
  /** What the process before has recorded; null for a run that begins. */
  readonly recorded: RecordedRun | null
  /** The chat so far, oldest first; the last message with this run's id is the one to answer. */
  readonly history: readonly HistoryMessage[]
}

export type HistoryMessage = StoredMessage & { readonly attachments: readonly ContextAttachment[] }

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
