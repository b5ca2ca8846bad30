import { randomBytes } from 'node:crypto'

/** What an id is the name of. */
export type IdPrefix =
  | 'own'
  | 'int'
  | 'chat'
  | 'run'
  | 'msg'
  | 'att'
  | 'mem'
  | 'key'
  | 'upl'
  | 'whk'
  | 'evt'
  | 'sec'
  | 'boot'
  | 'req'

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz' // Crockford: no i, l, o, u

/**
 * A new id: the prefix and 26 characters of a UUIDv7 in Crockford base32.
 *
 * Ids sort by their millisecond of creation; 74 random bits keep them from being guessed.
 */
export function newId<Prefix extends IdPrefix>(prefix: Prefix, now: number = Date.now()): `${Prefix}_${string}` {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(now, 0, 6)
  bytes[6] = 0x70 | (bytes[6]! & 0x0f)
  bytes[8] = 0x80 | (bytes[8]! & 0x3f)
  return `${prefix}_${base32(bytes)}`
}

/** 16 bytes as 26 characters; the first carries three bits. */
function base32(bytes: Buffer): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`)
  let text = ''
  for (let length = 0; length < 26; length++) {
    text = ALPHABET[Number(rest & 31n)] + text
    rest >>= 5n
  }
  return text
}
