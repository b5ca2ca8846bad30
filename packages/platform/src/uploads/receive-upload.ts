import { createHash } from 'node:crypto'
import { ServiceError, type StoredUpload } from '@bureau/protocol'
import { hashToken } from '../api-keys/api-key-token.ts'
import type { Platform } from '../context.ts'
import { advanceUpload, claimContent, completeUpload, openUpload } from './manage-uploads.ts'
import type { UploadView } from './uploads.repo.ts'

export type Content = AsyncIterable<Uint8Array>

/** What the address of an upload says. */
export type UploadAddress = { readonly uploadId: string; readonly token: string | undefined }

/** Each is a file of its own until the upload is complete. */
const MAX_PARTS = 1_000

/**
 * The upload that an address names, if the token is the right one.
 *
 * @throws ServiceError `invalid_upload_token`, also for an upload that is not there; `upload_expired`
 */
export async function findUpload({ store }: Platform, { uploadId, token }: UploadAddress): Promise<UploadView> {
  if (token === undefined) throw new ServiceError('invalid_upload_token')
  return store.db.run(openUpload, { uploadId, tokenHash: hashToken(token) })
}

/**
 * Takes the whole content at once.
 *
 * @throws ServiceError `upload_complete`, `upload_offset_mismatch` (another request is sending it), `upload_too_large`,
 *   `checksum_mismatch`, `storage_quota_exceeded`, and what `findUpload` throws
 */
export function receiveWhole(platform: Platform, address: UploadAddress, content: Content): Promise<StoredUpload> {
  return whilePending(platform, address, (upload) => complete(platform, upload, content))
}

/**
 * Takes a part of the content, from where the last one ended. The last part makes the upload complete.
 *
 * @returns The bytes that are there now.
 * @throws ServiceError `upload_offset_mismatch`, `upload_too_many_parts` and what `receiveWhole` throws; the error of `content` when it broke off:
 *   what came before is kept.
 */
export function receivePart(
  platform: Platform,
  address: UploadAddress,
  { offset, content }: { readonly offset: number; readonly content: Content },
): Promise<number> {
  return whilePending(platform, address, async (upload) => {
    const { uploadId, ownerId, declaredBytes } = upload
    if (offset !== upload.receivedBytes) throw new ServiceError('upload_offset_mismatch')
    if (upload.parts.length >= MAX_PARTS) throw new ServiceError('upload_too_many_parts')
    const { staged, store } = platform
    const { part, bytes, brokenOff } = await staged.append(uploadId, content, declaredBytes - offset)
    const advanced = await store.db.run(advanceUpload, { ownerId, uploadId, offset, bytes, part })
    if (brokenOff) throw brokenOff
    const { receivedBytes, parts } = advanced
    if (receivedBytes === declaredBytes) await complete(platform, advanced, staged.read(uploadId, parts))
    return receivedBytes
  })
}

/** Of requests about one upload, one at a time changes it, and none once it is complete. */
function whilePending<Result>(
  platform: Platform,
  address: UploadAddress,
  change: (upload: UploadView) => Promise<Result>,
): Promise<Result> {
  return platform.staged.exclusively(address.uploadId, async () => {
    const upload = await findUpload(platform, address)
    if (upload.status === 'ready') throw new ServiceError('upload_complete')
    return change(upload)
  })
}

/**
 * The content gets its name in the mount first: what the record calls ready is there. Before that, the record gets its
 * checksum: of several processes that are sent one upload, each puts the same content under the name, or fails.
 */
async function complete(platform: Platform, upload: UploadView, content: Content): Promise<StoredUpload> {
  const { mounts, staged, store } = platform
  const { uploadId, ownerId, path, declaredBytes: maxBytes, sha256 } = upload
  const mount = await mounts.of(upload)
  const stored =
    sha256 === null
      ? await mount.put(path, claimed(platform, upload, content), { maxBytes })
      : await mount.put(path, content, { maxBytes, sha256 })
  const { sizeBytes: bytes } = stored
  const hash = new Uint8Array(Buffer.from(stored.sha256, 'hex'))
  try {
    const ready = await store.db.run(completeUpload, { ownerId, uploadId, bytes, sha256: hash })
    await staged.discard(uploadId, ready.parts)
    return storedView(ready)
  } catch (error) {
    // The upload is over, and no process will complete it.
    if (error instanceof ServiceError && error.code === 'upload_expired') await mount.delete(path)
    throw error
  }
}

/** The content, whose end comes when the record has its checksum. @throws ServiceError what `claimContent` throws */
async function* claimed(
  { store }: Platform,
  { ownerId, uploadId }: UploadView,
  content: Content,
): AsyncGenerator<Uint8Array, void> {
  const hash = createHash('sha256')
  for await (const chunk of content) {
    hash.update(chunk)
    yield chunk
  }
  await store.db.run(claimContent, { ownerId, uploadId, sha256: new Uint8Array(hash.digest()) })
}

function storedView({ uploadId, path, name, receivedBytes, sha256 }: UploadView): StoredUpload {
  return { uploadId, path, name, size: receivedBytes, sha256: sha256 ?? '', status: 'ready' }
}
