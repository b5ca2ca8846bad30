import { and, eq, sql } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { messageAttachments } from '../db/schema.ts'
import { newId } from '../ids.ts'
import { type Place, seal } from '../security/seal.ts'
import { attachmentParamsHash, attachmentUrlExpiry, attachmentUrlKey } from './attachment-url.ts'
import type { NewAttachment } from './attachments.repo.ts'
import type { ChatKey } from './chats.repo.ts'
import type { PlannedRefresh } from './plan-attachment-refresh.ts'

/** A signed address is a credential. */
export const attachmentPlace = (ownerId: string, id: string): Place => ({
  table: 'message_attachments',
  column: 'url_enc',
  owner: ownerId,
  row: id,
})

type Target = ChatKey & { readonly runId: string; readonly messageSeq: number; readonly dataKey: Uint8Array }

export async function insertAttachments(tx: Tx, target: Target, attachments: readonly NewAttachment[]): Promise<void> {
  if (attachments.length === 0) return
  const { ownerId, chatId, runId, messageSeq, dataKey } = target
  const rows = attachments.map(({ kind, filename, detail, source }, idx) => {
    const id = newId('att')
    const place = attachmentPlace(ownerId, id)
    const content =
      'url' in source
        ? addressColumns(dataKey, place, new URL(source.url))
        : { blobSha256: source.sha256, mime: source.mime, byteSize: source.bytes }
    return { id, ownerId, chatId, runId, messageSeq, idx, kind, filename, detail, ...content }
  })
  await tx.insert(messageAttachments).values(rows)
}

export async function refreshAttachments(
  tx: Tx,
  { ownerId, dataKey }: { readonly ownerId: string; readonly dataKey: Uint8Array },
  planned: readonly PlannedRefresh[],
): Promise<void> {
  for (const { id, url } of planned) {
    await tx
      .update(messageAttachments)
      .set({ ...addressColumns(dataKey, attachmentPlace(ownerId, id), url), state: 'ok', refreshedAt: sql`now()` })
      .where(and(eq(messageAttachments.id, id), eq(messageAttachments.ownerId, ownerId)))
  }
}

function addressColumns(dataKey: Uint8Array, place: Place, url: URL) {
  const expiry = attachmentUrlExpiry(url)
  return {
    urlEnc: seal(dataKey, place, url.href),
    urlKey: attachmentUrlKey(url),
    urlParamsHash: attachmentParamsHash(dataKey, url),
    expiresAt: expiry === undefined ? null : new Date(expiry),
  }
}
