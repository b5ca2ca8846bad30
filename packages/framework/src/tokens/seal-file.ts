import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

const KEY_BYTES = 32

/** A stored file that cannot be opened: another key or place was used, or it was altered. */
export class UnreadableFile extends Error {
  override readonly name = 'UnreadableFile'
}

/**
 * Encrypts text for one place (AES-256-GCM). The place is authenticated, so that a file copied into another user's
 * folder cannot be opened there.
 */
export function sealText(key: Uint8Array, place: readonly string[], text: string): string {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(JSON.stringify(place)))
  const data = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]).toString('base64')
  const sealed = { v: 1, key: keyId(key), iv: iv.toString('base64'), tag: cipher.getAuthTag().toString('base64'), data }
  return JSON.stringify(sealed)
}

/**
 * Opens what `sealText` has sealed with one of the keys.
 *
 * @throws UnreadableFile
 */
export function unsealText(keys: readonly Uint8Array[], place: readonly string[], sealed: string): string {
  try {
    const { key: id, iv, tag, data } = JSON.parse(sealed) as Record<string, string>
    const key = keys.find((known) => keyId(known) === id)
    if (!key) throw new UnreadableFile('it was sealed with a key that is not configured')
    const decipher = createDecipheriv('aes-256-gcm', key, Buffer.from(iv!, 'base64'), { authTagLength: 16 })
      .setAAD(Buffer.from(JSON.stringify(place)))
      .setAuthTag(Buffer.from(tag!, 'base64'))
    return decipher.update(data!, 'base64', 'utf8') + decipher.final('utf8')
  } catch (cause) {
    if (cause instanceof UnreadableFile) throw cause
    throw new UnreadableFile('it was altered, or belongs to another user or server', { cause })
  }
}

/** 32 bytes written as base64, base64url or hexadecimal; undefined when the text is no such key. */
export function readSealKey(text: string): Uint8Array | undefined {
  const trimmed = text.trim()
  const bytes = /^[0-9a-f]{64}$/i.test(trimmed) ? Buffer.from(trimmed, 'hex') : Buffer.from(trimmed, 'base64')
  return bytes.length === KEY_BYTES ? new Uint8Array(bytes) : undefined
}

export function newSealKey(): string {
  return randomBytes(KEY_BYTES).toString('base64')
}

/** Tells keys apart without revealing them. */
function keyId(key: Uint8Array): string {
  return createHash('sha256').update('bureau token key id').update(key).digest('hex').slice(0, 8)
}
