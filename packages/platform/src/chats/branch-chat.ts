import { type PlatformChat, ServiceError } from '@bureau/protocol'
import { and, asc, eq, lt, not, sql } from 'drizzle-orm'
import { sqlstateOf } from '../db/database-error.ts'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { chats, messageAttachments, messages } from '../db/schema.ts'
import { newId } from '../ids.ts'
import { isNotFromUser } from '../run-records/runs.repo.ts'
import { seal, unseal } from '../security/seal.ts'
import { type ChatKey, type ChatRow, requireLockedChat } from './chats.repo.ts'
import { refusedField } from '../refused-field.ts'
import type { Reach } from '../run-records/read-runs.ts'
import { requireChat, viewOf } from './manage-chats.ts'
import { attachmentPlace } from './store-attachments.ts'

/** Copying more would hold up everybody else on the embedded database. */
const MAX_MESSAGES = 10_000
/** PostgreSQL takes 65,535 parameters in a statement. */
const ROWS_PER_INSERT = 1_000

type BranchChat = ChatKey &
  Reach & {
    /** The run whose message is to be said anew: what was said before it is copied. */
    readonly beforeRunId: string
    readonly aliasChatId: string | null
    readonly dataKey: Uint8Array
  }

/**
 * Creates a chat that holds what was said in another one before the message of a run. That one stays as it is.
 *
 * The copies keep the ids of their runs, which have ended: runs of a chat follow each other.
 *
 * @throws ServiceError `chat_not_found`, `run_not_found`, `alias_in_use`, `invalid_request` for too long a history
 */
export const branchChat = tenantOperation(
  { source: import.meta.url, name: 'branchChat', lane: 'interactive' },
  async (tx, args: BranchChat): Promise<PlatformChat> => {
    await requireChat(tx, args)
    const source = await requireLockedChat(tx, args) // so that it is not erased meanwhile
    const seq = await findSeq(tx, args)
    const branch = await insertBranch(tx, source, { seq, alias: args.aliasChatId })
    await copyMessages(tx, { source, branch, seq })
    await copyAttachments(tx, { source, branch, seq, dataKey: args.dataKey })
    return viewOf(tx, branch)
  },
)

/** The number of the message with which a run of the chat began. */
async function findSeq(tx: Tx, { ownerId, chatId, beforeRunId }: BranchChat): Promise<number> {
  const [asked] = await tx
    .select({ seq: messages.seq })
    .from(messages)
    .where(
      and(
        eq(messages.chatId, chatId),
        eq(messages.ownerId, ownerId),
        eq(messages.runId, beforeRunId),
        not(isNotFromUser),
      ),
    )
  if (!asked) throw refused('run_not_found', 'The chat has no such run.', 'Send the runId of one of its messages.')
  if (asked.seq > MAX_MESSAGES) {
    const says = `More than ${MAX_MESSAGES} messages come before this run.`
    throw refused('invalid_request', says, 'Choose an earlier run, or begin a new chat.')
  }
  return asked.seq
}

function refused(code: 'run_not_found' | 'invalid_request', message: string, fix: string): ServiceError {
  return new ServiceError(code, { message, fields: [{ path: '/beforeRunId', code, error: fix }] })
}

async function insertBranch(
  tx: Tx,
  { ownerId, integrationId, title, createdByConsumer, summary, summarizedSeq }: ChatRow,
  { seq, alias }: { readonly seq: number; readonly alias: string | null },
): Promise<ChatRow> {
  const isSummarized = summarizedSeq < seq
  try {
    const [branch] = await tx
      .insert(chats)
      .values({
        id: newId('chat'),
        ownerId,
        integrationId,
        alias,
        title,
        createdByConsumer,
        nextSeq: seq,
        ...(isSummarized && { summary, summarizedSeq }),
      })
      .returning()
    if (!branch) throw new Error('an inserted chat is returned')
    return branch
  } catch (error) {
    throw sqlstateOf(error) === '23505' ? refusedField('alias_in_use', 'aliasChatId') : error
  }
}

/** Two chats, and the number of the first message that is not copied. */
type Copied = { readonly source: ChatRow; readonly branch: ChatRow; readonly seq: number }

async function copyMessages(tx: Tx, { source, branch, seq }: Copied): Promise<void> {
  const ids = Array.from({ length: seq - 1 }, () => newId('msg'))
  await tx.execute(sql`
    INSERT INTO messages (chat_id, seq, owner_id, run_id, id, role, item, status, created_at)
    SELECT ${branch.id}, m.seq, m.owner_id, m.run_id, copy.id, m.role, m.item, m.status, m.created_at
    FROM messages m JOIN jsonb_array_elements_text(${JSON.stringify(ids)}::jsonb) WITH ORDINALITY AS copy (id, seq)
      ON copy.seq = m.seq
    WHERE m.chat_id = ${source.id} AND m.owner_id = ${source.ownerId}`)
}

/** An address is sealed for its row, and therefore anew. */
async function copyAttachments(
  tx: Tx,
  { source, branch, seq, dataKey }: Copied & { readonly dataKey: Uint8Array },
): Promise<void> {
  const { ownerId } = source
  const { chatId, messageSeq, idx } = messageAttachments
  const found = await tx
    .select()
    .from(messageAttachments)
    .where(and(eq(chatId, source.id), eq(messageAttachments.ownerId, ownerId), lt(messageSeq, seq)))
    .orderBy(asc(messageSeq), asc(idx))
  const copies = found.map((row) => {
    const id = newId('att')
    const url = row.urlEnc ? unseal(dataKey, attachmentPlace(ownerId, row.id), row.urlEnc) : null
    return { ...row, id, chatId: branch.id, urlEnc: url && seal(dataKey, attachmentPlace(ownerId, id), url) }
  })
  for (let from = 0; from < copies.length; from += ROWS_PER_INSERT) {
    await tx.insert(messageAttachments).values(copies.slice(from, from + ROWS_PER_INSERT))
  }
}
