import { ServiceError, type StoredUpload } from '@bureau/protocol'
import { hashToken } from '../api-keys/api-key-token.ts'
import type { Platform } from '../context.ts'
import { advanceUpload, completeUpload, openUpload } from './manage-uploads.ts'
import type { UploadView } from './uploads.repo.ts'

export type Content = AsyncIterable<Uint8Array>

/**
 * The upload that an address names, if the token is the right one.
 *
 * @throws ServiceError `invalid_upload_token`, also for an upload that is not there; `upload_expired`
 */
export async function findUpload(
  { store }: Platform,
  uploadId: string,
  token: string | undefined,
): Promise<UploadView> {
  if (token === undefined) throw new ServiceError('invalid_upload_token')
  return store.db.run(openUpload, { uploadId, tokenHash: hashToken(token) })
}

/**
 * Takes the whole content at once. An upload that is complete stays as it is.
 *
 * @throws ServiceError `upload_too_large`, `checksum_mismatch`, `upload_expired`, `storage_quota_exceeded`
 */
export async function receiveWhole(platform: Platform, upload: UploadView, content: Content): Promise<StoredUpload> {
  if (upload.status === 'ready') return storedView(upload)
  return complete(platform, upload, content)
}

/**
 * Takes a part of the content, from where the last one ended. The last part makes the upload complete.
 *
 * @returns The bytes that are there now.
 * @throws ServiceError `upload_offset_mismatch` and what `receiveWhole` throws; the error of `content` when it broke off:
 *   what came before is kept.
 */
export async function receivePart(
  platform: Platform,
  upload: UploadView,
  { offset, content }: { readonly offset: number; readonly content: Content },
): Promise<number> {
  const { uploadId, ownerId, declaredBytes } = upload
  if (upload.status !== 'pending' || offset !== upload.receivedBytes) throw new ServiceError('upload_offset_mismatch')
  const { staged, store } = platform
  const { bytes, brokenOff } = await staged.append(uploadId, content, { offset, maxBytes: declaredBytes })
  await store.db.run(advanceUpload, { ownerId, uploadId, offset, bytes })
  if (brokenOff) throw brokenOff
  const received = offset + bytes
  if (received === declaredBytes) await complete(platform, upload, staged.read(uploadId, received))
  return received
}

/** The content gets its name in the mount first: what the record calls ready is there. */
async function complete(
  { mounts, staged, store }: Platform,
  upload: UploadView,
  content: Content,
): Promise<StoredUpload> {
  const { uploadId, ownerId, path, declaredBytes, sha256 } = upload
  const mount = await mounts.of(upload)
  const stored = await mount.put(path, content, { maxBytes: declaredBytes, ...(sha256 !== null && { sha256 }) })
  const { sizeBytes: bytes } = stored
  const hash = new Uint8Array(Buffer.from(stored.sha256, 'hex'))
  try {
    const ready = await store.db.run(completeUpload, { ownerId, uploadId, bytes, sha256: hash })
    await staged.discard(uploadId)
    return storedView(ready)
  } catch (error) {
    if (error instanceof ServiceError && error.status < 500) await mount.delete(path)
    throw error
  }
}

function storedView({ uploadId, path, name, receivedBytes, sha256 }: UploadView): StoredUpload {
  return { uploadId, path, name, size: receivedBytes, sha256: sha256 ?? '', status: 'ready' }
}
