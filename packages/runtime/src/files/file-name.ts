import { ServiceError } from '@bureau/protocol'

const MAX_NAME_BYTES = 1024
const MAX_SEGMENT_BYTES = 255

/**
 * Whether a text names a file of a store: a relative path with `/` between its segments, in one spelling only.
 *
 * At most 1,024 bytes of normalised (NFC) text, segments of at most 255; no control, zero-width or bidirectional
 * characters, no backslash, no empty, `.` or `..` segment. Percent signs are characters like others.
 */
export function isFileName(name: string): boolean {
  if (!name.isWellFormed() || name.normalize('NFC') !== name || Buffer.byteLength(name) > MAX_NAME_BYTES) return false
  if (/[\\\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name)) return false
  return name.split('/').every((segment) => {
    return segment !== '' && segment !== '.' && segment !== '..' && Buffer.byteLength(segment) <= MAX_SEGMENT_BYTES
  })
}

/** @throws ServiceError `invalid_file_name` */
export function requireFileName(name: string): void {
  if (!isFileName(name)) throw new ServiceError('invalid_file_name')
}
