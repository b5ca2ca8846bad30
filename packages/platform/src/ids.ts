import { randomFillSync } from 'node:crypto'

/** What an id is the name of. */
type IdPrefix =
  | 'own'
  | 'int'
  | 'chat'
  | 'run'
  | 'msg'
  | 'att'
  | 'mem'
  | 'key'
  | 'ctk'
  | 'upl'
  | 'whk'
  | 'evt'
  | 'sec'
  | 'boot'
  | 'req'

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz' // Crockford: no i, l, o, u
const ID_BYTES = 16

/** Random bytes for the next ids: the generator is asked for many at a time. */
const random = Buffer.alloc(256 * ID_BYTES)
let used = random.length

/**
 * A new id: the prefix and 26 characters of a UUIDv7 in Crockford base32.
 *
 * Ids sort by their millisecond of creation; 74 random bits keep them from being guessed.
 */
export function newId<Prefix extends IdPrefix>(prefix: Prefix, now: number = Date.now()): `${Prefix}_${string}` {
  if (used === random.length) {
    randomFillSync(random)
    used = 0
  }
  const bytes = random.subarray(used, (used += ID_BYTES))
  bytes.writeUIntBE(now, 0, 6)
  bytes[6] = 0x70 | (bytes[6]! & 0x0f)
  bytes[8] = 0x80 | (bytes[8]! & 0x3f)
  return `${prefix}_${base32(bytes)}`
}

/** 16 bytes as 26 characters; the first carries three bits. */
function base32(bytes: Uint8Array): string {
  let text = ''
  let rest = 0
  let bits = 2 // in front of the first byte
  for (const byte of bytes) {
    rest = ((rest << 8) | byte) & 0xfff
    for (bits += 8; bits >= 5;) text += ALPHABET[(rest >> (bits -= 5)) & 31]
  }
  return text
}
