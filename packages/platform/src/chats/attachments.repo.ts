import type { AttachmentView } from '@bureau/protocol'
import { and, asc, eq, inArray, isNotNull } from 'drizzle-orm'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { messageAttachments } from '../db/schema.ts'
import type { ChatKey } from './chats.repo.ts'

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

/** The earlier attachments with an address. */
export async function listEarlierAttachments(tx: Tx, { ownerId, chatId }: ChatKey): Promise<EarlierAttachment[]> {
  const rows = await tx
    .select()
    .from(messageAttachments)
    .where(
      and(
        eq(messageAttachments.chatId, chatId),
        eq(messageAttachments.ownerId, ownerId),
        inArray(messageAttachments.state, ['ok', 'needs_refresh', 'excluded']),
        isNotNull(messageAttachments.urlKey),
      ),
    )
    .orderBy(asc(messageAttachments.messageSeq), asc(messageAttachments.idx))
  return rows.map(({ id, urlKey, urlParamsHash, expiresAt, state }) => ({
    id,
    urlKey: urlKey ?? '',
    paramsHash: Buffer.from(urlParamsHash ?? []).toString('hex'),
    expiresAt: expiresAt?.getTime() ?? null,
    state: state as EarlierAttachment['state'],
  }))
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
  { source: import.meta.url, name: 'findReferencedBlobs', lane: 'maintenance' },
  async (tx, { ownerId, blobs }: { ownerId: string; blobs: readonly Uint8Array[] }): Promise<Uint8Array[]> => {
    if (blobs.length === 0) return []
    const rows = await tx
      .selectDistinct({ sha256: messageAttachments.blobSha256 })
      .from(messageAttachments)
      .where(and(eq(messageAttachments.ownerId, ownerId), inArray(messageAttachments.blobSha256, [...blobs])))
    return rows.flatMap((row) => (row.sha256 ? [row.sha256] : []))
  },
)
