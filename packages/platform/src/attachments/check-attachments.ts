import { createHash } from 'node:crypto'
import { type ErrorCode, ServiceError } from '@bureau/protocol'
import { checkUrl, EgressError } from '@bureau/runtime'
import type { NewAttachment } from '../chats/attachments.repo.ts'
import type { AttachmentAccess } from './attachment-access.ts'
import { isAttachmentName, nameFromUrl } from './attachment-name.ts'
import { readDataUrl } from './read-data-url.ts'

/** An attachment of a request. The API's schema has checked its type, its members and their types. */
export type RequestedAttachment =
  | { readonly type: 'input_file'; readonly file_url: string; readonly filename?: string | undefined }
  | {
      readonly type: 'input_image'
      readonly image_url: string
      readonly detail?: 'auto' | 'low' | 'high' | undefined
    }

/** An attachment that may be reserved. */
type CheckedAttachment = {
  readonly attachment: NewAttachment
  /** To be put into the blob store before the reservation; null for an address. */
  readonly inline: Uint8Array | null
}

/** What decides whether an address may be named, without asking anybody. */
export type AddressRules = Pick<AttachmentAccess, 'policy' | 'ports'>

const MAX_ITEMS = 5
const MAX_INLINE_BYTES = 20 * 1024 * 1024

/**
 * Checks the attachments of a request as far as that needs no network.
 *
 * Each URL is parsed once; only the parsed form goes on.
 *
 * @throws ServiceError `invalid_request`, `invalid_attachment`, `attachment_too_large`; the message says which one.
 */
export function checkAttachments(
  requested: readonly RequestedAttachment[],
  rules: AddressRules,
): readonly CheckedAttachment[] {
  if (requested.length > MAX_ITEMS) {
    throw new ServiceError('invalid_request', { message: `attachments: at most ${MAX_ITEMS} items` })
  }
  const checked = requested.map((attachment, index) => {
    const field = attachment.type === 'input_file' ? 'file_url' : 'image_url'
    return naming(`attachments[${index}].${field}`, () => checkOne(attachment, rules))
  })
  const inlineBytes = checked.reduce((sum, { inline }) => sum + (inline?.length ?? 0), 0)
  if (inlineBytes <= MAX_INLINE_BYTES) return checked
  throw new ServiceError('attachment_too_large', { message: 'attachments: the data URLs are larger than 20 MiB' })
}

/**
 * Checks the fresh addresses of earlier files by the rules that held for the first ones.
 *
 * @throws ServiceError `invalid_attachment_refresh`
 */
export function checkRefreshes(refreshes: Readonly<Record<string, string>>, rules: AddressRules): void {
  for (const [key, url] of Object.entries(refreshes)) {
    naming(`attachmentUrlRefreshes: the URL for ${key}`, () => checkAddress(url, rules, 'invalid_attachment_refresh'))
  }
}

function checkOne(attachment: RequestedAttachment, rules: AddressRules): CheckedAttachment {
  if (attachment.type === 'input_file') return checkFile(attachment, rules)
  const { image_url: address, detail = 'auto' } = attachment
  const kind = 'input_image'
  if (!/^\s*data:/i.test(address)) {
    const url = checkAddress(address, rules, 'invalid_attachment').href
    return { attachment: { kind, filename: null, detail, source: { url } }, inline: null }
  }
  const { mime, bytes } = readDataUrl(address)
  const sha256 = new Uint8Array(createHash('sha256').update(bytes).digest())
  const source = { sha256, mime, bytes: bytes.length }
  return { attachment: { kind, filename: null, detail, source }, inline: bytes }
}

type RequestedFile = Extract<RequestedAttachment, { type: 'input_file' }>

function checkFile({ file_url: address, filename }: RequestedFile, rules: AddressRules): CheckedAttachment {
  const url = checkAddress(address, rules, 'invalid_attachment')
  const name = filename?.normalize('NFC')
  if (name !== undefined && !isAttachmentName(name)) {
    throw new ServiceError('invalid_attachment', { message: 'has a filename that is not one plain file name' })
  }
  const attachment = {
    kind: 'input_file',
    filename: name ?? nameFromUrl(url),
    detail: null,
    source: { url: url.href },
  } as const
  return { attachment, inline: null }
}

function checkAddress(address: string, { policy, ports }: AddressRules, code: ErrorCode): URL {
  try {
    return checkUrl(address, { policy, ports, schemes: ['https'] })
  } catch (error) {
    if (!(error instanceof EgressError)) throw error
    throw new ServiceError(code, { message: `is not a public HTTPS address: ${error.message}`, cause: error })
  }
}

/** Puts the name of the field before the message of a refusal. */
function naming<T>(field: string, check: () => T): T {
  try {
    return check()
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    throw new ServiceError(error.code, { message: `${field} ${error.message}`, cause: error })
  }
}
