import type { AttachmentView } from '@bureau/protocol'
import { and, asc, eq, inArray, isNotNull } from 'drizzle-orm'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { chats, messageAttachments, runs } from '../db/schema.ts'
import { type ChatKey, isActiveRun, isChat } from './chats.repo.ts'

export type AttachmentRow = typeof messageAttachments.$inferSelect

/** An attachment of a new message. Its form was checked; `url` is the parsed address. */
export type NewAttachment = {
  readonly kind: 'input_file' | 'input_image'
  readonly filename: string | null
  readonly detail: 'auto' | 'low' | 'high' | null
  /** A public address, or inline bytes that lie in the blob store under their hash. */
  readonly source:
    | { readonly url: string }
    | { readonly sha256: Uint8Array; readonly mime: string; readonly bytes: number }
}

/** An earlier attachment of the conversation that has a URL (not inline data). */
export type EarlierAttachment = {
  readonly id: string
  readonly urlKey: string
  /** Equal for addresses that differ in their signature alone. */
  readonly paramsHash: string
  /** Milliseconds since the epoch; null when the address did not say. */
  readonly expiresAt: number | null
  /** Later turns leave out what is `excluded`. */
  readonly state: 'ok' | 'needs_refresh' | 'excluded'
}

/** What of a chat is asked about before it may have another run. */
export type ChatUse = {
  /** The run that occupies it. Exact while the chat's row is locked. */
  readonly activeRunId: string | null
  /** Those with an address. */
  readonly attachments: readonly EarlierAttachment[]
}

const selectUse = prepared((tx, key: ChatKey) => {
  const { id, chatId, urlKey, urlParamsHash, expiresAt, state, messageSeq, idx } = messageAttachments
  const isEarlier = and(
    eq(chatId, chats.id),
    eq(messageAttachments.ownerId, chats.ownerId),
    inArray(state, ['ok', 'needs_refresh', 'excluded']),
    isNotNull(urlKey),
  )
  return tx
    .select({ activeRunId: runs.id, attachment: { id, urlKey, urlParamsHash, expiresAt, state } })
    .from(chats)
    .leftJoin(runs, and(eq(runs.chatId, chats.id), eq(runs.ownerId, chats.ownerId), isActiveRun))
    .leftJoin(messageAttachments, isEarlier)
    .where(isChat(key))
    .orderBy(asc(messageSeq), asc(idx))
})

export async function readChatUse(tx: Tx, key: ChatKey): Promise<ChatUse> {
  const rows = await selectUse(tx, key)
  const attachments = rows.flatMap(({ attachment }) => attachment ?? [])
  return {
    activeRunId: rows[0]?.activeRunId ?? null,
    attachments: attachments.map(({ id, urlKey, urlParamsHash, expiresAt, state }) => ({
      id,
      urlKey: urlKey ?? '',
      paramsHash: Buffer.from(urlParamsHash ?? []).toString('hex'),
      expiresAt: expiresAt?.getTime() ?? null,
      state: state as EarlierAttachment['state'],
    })),
  }
}

/** An attachment as the history shows it. A pending one of a running response shows as `ok`. */
export function attachmentView(row: AttachmentRow): AttachmentView {
  return {
    id: row.id,
    type: row.kind,
    filename: row.filename,
    mime: row.mime,
    bytes: row.byteSize,
    urlKey: row.urlKey,
    inline: row.blobSha256 !== null,
    state: row.state === 'pending' ? 'ok' : row.state,
  }
}

/** Which of these blobs (SHA-256) some message of the owner still refers to. The others may be removed after a day. */
export const findReferencedBlobs = tenantOperation(
  { source: import.meta.url, name: 'findReferencedBlobs', lane: 'maintenance', onlyReads: true },
  async (tx, { ownerId, blobs }: { ownerId: string; blobs: readonly Uint8Array[] }): Promise<Uint8Array[]> => {
    if (blobs.length === 0) return []
    const rows = await tx
      .selectDistinct({ sha256: messageAttachments.blobSha256 })
      .from(messageAttachments)
      .where(and(eq(messageAttachments.ownerId, ownerId), inArray(messageAttachments.blobSha256, [...blobs])))
    return rows.flatMap((row) => (row.sha256 ? [row.sha256] : []))
  },
)
