import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

/** Where a sealed value stands. It is bound to that place: moved to another row or column it cannot be opened. */
export type Place = {
  readonly table: string
  readonly column: string
  /** The owner's id, or `platform` for keys of the platform itself. */
  readonly owner: string
  readonly row: string
}

/** Byte 0 of every sealed value: AES-256-GCM, 12 bytes of nonce, 16 bytes of tag. */
const FORMAT = 1
const KEY_ID = { from: 1, to: 5 }
const NONCE = { from: 5, to: 17 }
const TAG = { from: 17, to: 33 }

/** Encrypts for one place in the database. `key` has 32 bytes. */
export function seal(key: Uint8Array, place: Place, plaintext: Uint8Array | string): Uint8Array {
  const nonce = randomBytes(NONCE.to - NONCE.from)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(aad(place))
  const body = cipher.update(typeof plaintext === 'string' ? Buffer.from(plaintext) : plaintext)
  cipher.final()
  return new Uint8Array(Buffer.concat([Buffer.of(FORMAT), keyId(key), nonce, cipher.getAuthTag(), body]))
}

/** @throws SealError another key or another place was used, or the value was altered. */
export function unseal(key: Uint8Array, place: Place, sealed: Uint8Array): Uint8Array {
  if (sealed[0] !== FORMAT || sealed.length < TAG.to) throw new SealError('not a sealed value')
  if (!keyId(key).equals(sealed.subarray(KEY_ID.from, KEY_ID.to))) throw new SealError('sealed with another key')
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(NONCE.from, NONCE.to))
    .setAAD(aad(place))
    .setAuthTag(sealed.subarray(TAG.from, TAG.to))
  try {
    const body = decipher.update(sealed.subarray(TAG.to))
    decipher.final()
    return new Uint8Array(body)
  } catch (cause) {
    throw new SealError('altered, or sealed for another place', { cause })
  }
}

export function unsealText(key: Uint8Array, place: Place, sealed: Uint8Array): string {
  return Buffer.from(unseal(key, place, sealed)).toString('utf8')
}

/** A value at rest that cannot be opened. */
export class SealError extends Error {
  override readonly name = 'SealError'
}

const aad = (place: Place): Buffer => Buffer.from([place.table, place.column, place.owner, place.row].join('|'))

/** Tells keys apart without revealing them. */
function keyId(key: Uint8Array): Buffer {
  return createHash('sha256')
    .update('bureau key id')
    .update(key)
    .digest()
    .subarray(0, KEY_ID.to - KEY_ID.from)
}
