import { and, eq, inArray } from 'drizzle-orm'
import { tenantOperation } from '../db/operation.ts'
import { messageAttachments } from '../db/schema.ts'

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
