import { ServiceError } from '@bureau/protocol'
import { type ImageMime, MAX_PIXELS, readImageHeader } from './image-header.ts'

type InlineImage = { readonly mime: ImageMime; readonly bytes: Uint8Array }

const MAX_BYTES = 5 * 1024 * 1024
const FORM = /^data:(image\/(?:png|jpeg|gif|webp));base64,/i
const NOT_BASE64 = /[^A-Za-z0-9+/]/

/**
 * Decodes an inline image: `data:image/png;base64,…` (or jpeg, gif, webp) with canonical base64 (RFC 4648, section 4),
 * no other parameters, and the content that it declares.
 *
 * @throws ServiceError `invalid_attachment`; `attachment_too_large` above 5 MiB or 50 megapixels.
 */
export function readDataUrl(text: string): InlineImage {
  const [prefix = '', mime = ''] = FORM.exec(text.slice(0, 40)) ?? []
  if (prefix === '') throw invalid('is neither an HTTPS URL nor a base64 data URL of a PNG, JPEG, GIF or WebP image')
  if (text.length - prefix.length > base64Length(MAX_BYTES)) throw tooLarge('is larger than 5 MiB')
  const bytes = decodeBase64(text.slice(prefix.length))
  if (!bytes) throw invalid('is not valid base64')
  if (bytes.length > MAX_BYTES) throw tooLarge('is larger than 5 MiB')
  const header = readImageHeader(bytes)
  if (header?.mime !== mime.toLowerCase()) throw invalid(`is not an image of the type ${mime}`)
  if (header.width * header.height > MAX_PIXELS) throw tooLarge('has more than 50 megapixels')
  return { mime: header.mime, bytes }
}

/** Undefined unless this is the one spelling that encoding the bytes gives. */
function decodeBase64(text: string): Buffer | undefined {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0
  if (text.length === 0 || text.length % 4 !== 0) return undefined
  if (NOT_BASE64.test(padding === 0 ? text : text.slice(0, -padding))) return undefined
  const bytes = Buffer.from(text, 'base64')
  const last = bytes.subarray(bytes.length - (3 - padding)).toString('base64')
  return text.endsWith(last) ? bytes : undefined
}

const base64Length = (bytes: number): number => Math.ceil(bytes / 3) * 4

function invalid(problem: string): ServiceError {
  return new ServiceError('invalid_attachment', { message: problem })
}

function tooLarge(problem: string): ServiceError {
  return new ServiceError('attachment_too_large', { message: problem })
}
