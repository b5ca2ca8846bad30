import { and, eq, sql } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { mountUsage, uploads } from '../db/schema.ts'

export type UploadRow = typeof uploads.$inferSelect
export type UploadKey = { readonly ownerId: string; readonly uploadId: string }

/** An upload without its token. */
export type UploadView = {
  readonly uploadId: string
  readonly ownerId: string
  readonly integrationId: string
  readonly name: string
  /** Canonical, under `/app/mnt/`. */
  readonly path: string
  readonly declaredBytes: number
  readonly receivedBytes: number
  /** What it was received in; empty when the content came at once. */
  readonly parts: readonly string[]
  /** Lower-case hexadecimal; what was announced, then what was stored. */
  readonly sha256: string | null
  readonly contentType: string | null
  readonly status: 'pending' | 'ready' | 'expired' | 'deleted'
  readonly expiresAt: string
}

export const isUpload = ({ ownerId, uploadId }: UploadKey) =>
  and(eq(uploads.id, uploadId), eq(uploads.ownerId, ownerId))

/** Moves the counters of an integration's mount by signed amounts. They never fall below 0. */
export async function moveMountUsage(
  tx: Tx,
  { ownerId, integrationId }: { readonly ownerId: string; readonly integrationId: string },
  by: { readonly used?: number; readonly reserved?: number; readonly files?: number },
): Promise<void> {
  const { used = 0, reserved = 0, files = 0 } = by
  await tx
    .update(mountUsage)
    .set({
      usedBytes: sql`greatest(0, ${mountUsage.usedBytes} + ${used}::bigint)`,
      reservedBytes: sql`greatest(0, ${mountUsage.reservedBytes} + ${reserved}::bigint)`,
      fileCount: sql`greatest(0, ${mountUsage.fileCount} + ${files}::bigint)`,
    })
    .where(and(eq(mountUsage.integrationId, integrationId), eq(mountUsage.ownerId, ownerId)))
}

export function uploadView(row: UploadRow): UploadView {
  return {
    uploadId: row.id,
    ownerId: row.ownerId,
    integrationId: row.integrationId,
    name: row.name,
    path: row.path,
    declaredBytes: row.declaredBytes,
    receivedBytes: row.receivedBytes,
    parts: row.parts,
    sha256: row.sha256 ? Buffer.from(row.sha256).toString('hex') : null,
    contentType: row.contentType,
    status: row.state,
    expiresAt: row.expiresAt.toISOString(),
  }
}
