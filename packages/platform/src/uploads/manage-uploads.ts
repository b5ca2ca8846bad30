import { timingSafeEqual } from 'node:crypto'
import { ServiceError } from '@bureau/protocol'
import { and, eq, gt, inArray, sql } from 'drizzle-orm'
import { systemOperation, tenantOperation, type Tx } from '../db/operation.ts'
import { integrations, mountUsage, uploads } from '../db/schema.ts'
import { requireIntegration } from '../members/members.repo.ts'
import {
  isUpload,
  moveMountUsage,
  type UploadKey,
  type UploadRow,
  type UploadView,
  uploadView,
} from './uploads.repo.ts'

type NewUpload = {
  readonly ownerId: string
  readonly integrationId: string
  /** The agencies that this process has, by their ids. */
  readonly deployed: readonly string[]
  /** `newId('upl')`; part of the path, so that uploads never overwrite each other. */
  readonly uploadId: string
  readonly name: string
  readonly bytes: number
  readonly contentType: string | null
  /** 32 bytes, if the caller announced them. */
  readonly sha256: Uint8Array | null
  /** SHA-256 of the random token in the upload URL. */
  readonly tokenHash: Uint8Array
}

/** A mount holds at most this many files. */
const MAX_FILES = 100_000
const LIFETIME = sql`interval '1 hour'`

/** Where an upload will lie, as agents and `sandboxFiles` name it. */
const uploadPath = (uploadId: string, name: string): string =>
  `/app/mnt/uploads/${uploadId.replace('upl_', '')}/${name}`

/**
 * Reserves room for a file. Room that is not used within the hour is given back by `expireUploads`.
 *
 * @throws ServiceError `integration_not_found`, `unknown_agency`, `storage_not_enabled`, `storage_quota_exceeded`
 */
export const reserveUpload = tenantOperation(
  { source: import.meta.url, name: 'reserveUpload', lane: 'interactive' },
  async (tx, upload: NewUpload): Promise<UploadView> => {
    const { ownerId, integrationId, bytes } = upload
    const integration = await requireIntegration(tx, ownerId, integrationId)
    if (!upload.deployed.includes(integration.agencyId)) throw new ServiceError('unknown_agency')
    const quota = integration.settings.storageQuotaBytes
    if (quota === 0) throw new ServiceError('storage_not_enabled')
    await reserveRoom(tx, { ownerId, integrationId, bytes, quota })
    const [row] = await tx
      .insert(uploads)
      .values({
        id: upload.uploadId,
        ownerId,
        integrationId,
        name: upload.name,
        path: uploadPath(upload.uploadId, upload.name),
        declaredBytes: bytes,
        sha256: upload.sha256,
        contentType: upload.contentType,
        tokenHash: upload.tokenHash,
        expiresAt: sql`now() + ${LIFETIME}`,
      })
      .returning()
    if (!row) throw new Error('the upload was not stored')
    return uploadView(row)
  },
)

type Room = { readonly ownerId: string; readonly integrationId: string; readonly bytes: number; readonly quota: number }

/**
 * Of many that want the last room one gets it. The lock is a statement of its own, because one that waits counts the uploads
 * that there were when it began.
 */
async function reserveRoom(tx: Tx, { ownerId, integrationId, bytes, quota }: Room): Promise<void> {
  const isMount = and(eq(mountUsage.integrationId, integrationId), eq(mountUsage.ownerId, ownerId))
  await tx.insert(mountUsage).values({ ownerId, integrationId }).onConflictDoNothing()
  await tx.select().from(mountUsage).where(isMount).for('update')
  const pending = sql`(SELECT count(*) FROM uploads WHERE integration_id = ${integrationId} AND state = 'pending')`
  const taken = await tx
    .update(mountUsage)
    .set({ reservedBytes: sql`${mountUsage.reservedBytes} + ${bytes}::bigint` })
    .where(
      and(
        isMount,
        sql`${mountUsage.usedBytes} + ${mountUsage.reservedBytes} + ${bytes}::bigint <= ${quota}::bigint`,
        sql`${mountUsage.fileCount} + ${pending} < ${MAX_FILES}`,
      ),
    )
    .returning({ integrationId: mountUsage.integrationId })
  if (taken.length === 0) throw new ServiceError('storage_quota_exceeded')
}

/**
 * The upload that a token opens. The token is all that the caller has, so this looks across owners.
 *
 * @throws ServiceError `invalid_upload_token` (also for an unknown upload), `upload_expired`
 */
export const openUpload = systemOperation(
  { source: import.meta.url, name: 'openUpload', lane: 'interactive', onlyReads: true },
  async (tx, { uploadId, tokenHash }: { uploadId: string; tokenHash: Uint8Array }): Promise<UploadView> => {
    // Nobody can reach the files of an integration that is gone.
    const expired = sql<boolean>`${uploads.expiresAt} <= now() OR ${integrations.deletedAt} IS NOT NULL`
    const [row] = await tx
      .select({ upload: uploads, expired })
      .from(uploads)
      .innerJoin(integrations, eq(integrations.id, uploads.integrationId))
      .where(eq(uploads.id, uploadId))
    if (!row || !timingSafeEqual(row.upload.tokenHash, tokenHash)) throw new ServiceError('invalid_upload_token')
    const { state } = row.upload
    if (state === 'expired' || state === 'deleted' || (state === 'pending' && row.expired)) {
      throw new ServiceError('upload_expired')
    }
    return uploadView(row.upload)
  },
)

/**
 * Notes that bytes arrived, from `offset` on. Of several requests with the same offset one counts.
 *
 * @throws ServiceError `upload_offset_mismatch`, `upload_too_large`, `upload_complete`, `upload_expired`
 */
export const advanceUpload = tenantOperation(
  { source: import.meta.url, name: 'advanceUpload', lane: 'interactive' },
  async (tx, args: UploadKey & { offset: number; bytes: number; part: string | null }): Promise<UploadView> => {
    const row = await requirePending(tx, args)
    if (row.receivedBytes !== args.offset) throw new ServiceError('upload_offset_mismatch')
    const receivedBytes = args.offset + args.bytes
    if (receivedBytes > row.declaredBytes) throw new ServiceError('upload_too_large')
    const parts = args.part === null ? row.parts : [...row.parts, args.part]
    await tx.update(uploads).set({ receivedBytes, parts }).where(isUpload(args))
    return uploadView({ ...row, receivedBytes, parts })
  },
)

/**
 * Notes the checksum of the content of an upload, unless it has one: of several contents the first is the one.
 *
 * @throws ServiceError `upload_complete` when the upload has another content, `upload_expired`
 */
export const claimContent = tenantOperation(
  { source: import.meta.url, name: 'claimContent', lane: 'interactive' },
  async (tx, args: UploadKey & { sha256: Uint8Array }): Promise<void> => {
    const [row] = await tx
      .update(uploads)
      .set({ sha256: sql`coalesce(${uploads.sha256}, ${args.sha256})` })
      .where(isUpload(args))
      .returning()
    if (!row) throw new ServiceError('upload_expired')
    if (!hasChecksum(row, args.sha256)) throw new ServiceError('upload_complete')
  },
)

/**
 * Makes a complete upload a file of the mount; what was reserved becomes used. Repeating it changes nothing.
 *
 * @throws ServiceError `upload_expired`, `upload_too_large`, `checksum_mismatch`; `upload_complete` with another content
 */
export const completeUpload = tenantOperation(
  { source: import.meta.url, name: 'completeUpload', lane: 'interactive' },
  async (tx, args: UploadKey & { bytes: number; sha256: Uint8Array }): Promise<UploadView> => {
    const [known] = await tx.select().from(uploads).where(isUpload(args)).for('update')
    if (known?.state === 'ready' && hasChecksum(known, args.sha256)) return uploadView(known)
    const row = await requirePending(tx, args)
    if (args.bytes > row.declaredBytes) throw new ServiceError('upload_too_large')
    if (row.sha256 && !hasChecksum(row, args.sha256)) throw new ServiceError('checksum_mismatch')
    const [ready] = await tx
      .update(uploads)
      .set({ state: 'ready', receivedBytes: args.bytes, sha256: args.sha256, completedAt: sql`now()` })
      .where(isUpload(args))
      .returning()
    if (!ready) throw new Error('a locked upload vanished')
    await moveMountUsage(tx, ready, { used: args.bytes, reserved: 0 - row.declaredBytes, files: 1 })
    return uploadView(ready)
  },
)

const hasChecksum = (row: UploadRow, sha256: Uint8Array): boolean =>
  row.sha256 !== null && timingSafeEqual(row.sha256, sha256)

/** @throws ServiceError `upload_complete`: another process may have been sent the rest meanwhile; `upload_expired` */
async function requirePending(tx: Tx, key: UploadKey): Promise<UploadRow> {
  const columns = { upload: uploads, isOver: sql<boolean>`${uploads.expiresAt} <= now()` }
  const [found] = await tx.select(columns).from(uploads).where(isUpload(key)).for('update')
  if (found?.upload.state === 'ready') throw new ServiceError('upload_complete')
  if (found?.upload.state !== 'pending' || found.isOver) throw new ServiceError('upload_expired')
  return found.upload
}

/** So many pending uploads whose hour is over, by their ids, from behind one: whatever there is of them can be removed. */
export const listOverdueUploads = systemOperation(
  { source: import.meta.url, name: 'listOverdueUploads', lane: 'maintenance', onlyReads: true },
  async (tx, { after, limit }: { readonly after: string | null; readonly limit: number }): Promise<UploadView[]> => {
    const isNext = and(isOverdue, gt(uploads.id, after ?? ''))
    const rows = await tx.select().from(uploads).where(isNext).orderBy(uploads.id).limit(limit)
    return rows.map(uploadView)
  },
)

/** Gives back the room of overdue uploads. */
export const expireUploads = systemOperation(
  { source: import.meta.url, name: 'expireUploads', lane: 'maintenance' },
  async (tx, uploadIds: readonly string[]): Promise<void> => {
    const expired = await tx
      .update(uploads)
      .set({ state: 'expired' })
      .where(and(inArray(uploads.id, [...uploadIds]), isOverdue))
      .returning()
    for (const row of expired) await moveMountUsage(tx, row, { reserved: 0 - row.declaredBytes })
  },
)

const isOverdue = sql`${uploads.state} = 'pending' AND ${uploads.expiresAt} <= now()`
