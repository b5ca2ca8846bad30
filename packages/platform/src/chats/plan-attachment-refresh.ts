import { ServiceError } from '@bureau/protocol'
import type { EarlierAttachment } from './attachments.repo.ts'
import { attachmentUrlExpiry, attachmentUrlKey, parseAttachmentUrl } from './attachment-url.ts'

/** The attachments that get another address. */
export type PlannedRefresh = { readonly id: string; readonly url: URL }

/** An address that ends sooner than this is as good as expired. */
const MARGIN_MS = 120_000

/**
 * Matches `attachmentUrlRefreshes` with the earlier files of a conversation. Changes nothing.
 *
 * The whole conversation is looked at, so one answer names every file that needs a fresh address. A file that no later turn uses
 * may be listed too: a client need not know which these are.
 *
 * @param now Milliseconds since the epoch.
 * @throws ServiceError `invalid_attachment_refresh`, `attachment_refresh_ambiguous`, `attachment_refresh_required`
 */
export function planAttachmentRefresh(
  earlier: readonly EarlierAttachment[],
  refreshes: Readonly<Record<string, string>>,
  now: number,
): PlannedRefresh[] {
  const files = Map.groupBy(earlier, (attachment) => attachment.urlKey)
  const fresh = new Map<string, URL>()
  for (const [name, value] of Object.entries(refreshes)) {
    const key = readKey(name)
    if (fresh.has(key)) throw invalid(`${key} is listed twice.`)
    const file = files.get(key)
    if (!file) throw invalid(`${key} is not an earlier file of this conversation.`)
    const url = readFreshUrl(key, value, now)
    if (new Set(file.filter(isUsed).map((attachment) => attachment.paramsHash)).size > 1) {
      throw new ServiceError('attachment_refresh_ambiguous')
    }
    fresh.set(key, url)
  }
  const missing = [...files].filter(([key, file]) => !fresh.has(key) && file.some((one) => isStale(one, now)))
  if (missing.length > 0) {
    const keys = missing.map(([key]) => key).join(', ')
    throw new ServiceError('attachment_refresh_required', { message: `attachmentUrlRefreshes must list: ${keys}` })
  }
  return [...fresh].flatMap(([key, url]) =>
    files
      .get(key)!
      .filter(isUsed)
      .map(({ id }) => ({ id, url })),
  )
}

/** The key that a caller names: an address with its query removed. */
function readKey(name: string): string {
  const url = /[?#]/.test(name) ? undefined : parseAttachmentUrl(name)
  if (!url) throw invalid('Every key must be an HTTPS URL without its query string.')
  return attachmentUrlKey(url)
}

function readFreshUrl(key: string, value: string, now: number): URL {
  const url = parseAttachmentUrl(value)
  if (!url || attachmentUrlKey(url) !== key) throw invalid(`The fresh URL of ${key} must have the same host and path.`)
  const expiresAt = attachmentUrlExpiry(url)
  if (expiresAt !== undefined && expiresAt <= now + MARGIN_MS) throw invalid(`The fresh URL of ${key} has expired.`)
  return url
}

const isUsed = ({ state }: EarlierAttachment): boolean => state !== 'excluded'

function isStale({ state, expiresAt }: EarlierAttachment, now: number): boolean {
  if (state === 'excluded') return false
  return state === 'needs_refresh' || (expiresAt !== null && expiresAt <= now + MARGIN_MS)
}

const invalid = (message: string): ServiceError => new ServiceError('invalid_attachment_refresh', { message })
