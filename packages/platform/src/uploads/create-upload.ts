import { randomBytes } from 'node:crypto'
import type { AgencyUpload } from '@bureau/protocol'
import { hashToken } from '../api-keys/api-key-token.ts'
import { isAttachmentName } from '../attachments/attachment-name.ts'
import type { Platform } from '../context.ts'
import { newId } from '../ids.ts'
import { refusedField } from '../refused-field.ts'
import { reserveUpload } from './manage-uploads.ts'

type UploadRequest = {
  readonly ownerId: string
  readonly integrationId: string
  readonly name: string
  /** Bytes of the content. */
  readonly size: number
  readonly contentType: string | null
  /** Lower-case hexadecimal. */
  readonly sha256: string | null
}

const TOKEN_BYTES = 32
const NOT_A_NAME =
  'The file name is not valid: it must have 1 to 255 bytes, no directory and no control or invisible characters.'

/**
 * Reserves room in the mount and answers where the content is to be sent. The address carries a token of its own.
 *
 * @throws ServiceError `invalid_file_name`, `file_too_large`, `integration_not_found`, `unknown_agency`,
 *   `storage_not_enabled`, `storage_quota_exceeded`
 */
export async function createUpload(
  { store, config, agencies }: Platform,
  request: UploadRequest,
  baseUrl: string,
): Promise<AgencyUpload> {
  const { size, sha256, contentType, ownerId, integrationId } = request
  // There is one spelling of each path; names from macOS have accents after their letters.
  const name = request.name.normalize('NFC')
  if (!isAttachmentName(name)) throw refusedField('invalid_file_name', 'name', NOT_A_NAME)
  if (size > config.maxUploadBytes) throw refusedField('file_too_large', 'size')
  const uploadId = newId('upl')
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const upload = await store.db.run(reserveUpload, {
    ownerId,
    integrationId,
    deployed: [...agencies.keys()],
    uploadId,
    name,
    bytes: size,
    contentType,
    sha256: sha256 === null ? null : new Uint8Array(Buffer.from(sha256, 'hex')),
    tokenHash: hashToken(token),
  })
  return {
    uploadId,
    path: upload.path,
    name,
    uploadUrl: `${baseUrl}/v1/upload_content/${uploadId}?token=${token}`,
    method: 'PUT',
    headers: { 'Content-Type': contentType || 'application/octet-stream' },
    maxBytes: size,
    expiresAt: upload.expiresAt,
    status: 'pending',
  }
}
