import { createHash } from 'node:crypto'

/**
 * A folder name for any text: readable where possible, always safe, different for different texts.
 *
 * Letters, digits, `_` and `-` stay, at most 40 of them; the first 16 hex digits of the text's SHA-256 follow.
 */
export function safeSegment(text: string): string {
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 16)
  return `${text.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 40)}-${digest}`
}
