import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'

/**
 * JSON in which equal values have equal text: names sorted by code unit, no white space, absent members left out.
 *
 * Accepts what JSON can express. Recursive: bound the depth of foreign input before.
 */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`)
  return `{${members.join(',')}}`
}

/** Making one of bytes costs more than its use. */
const keys = new WeakMap<Uint8Array, KeyObject>()

function keyOf(bytes: Uint8Array): KeyObject {
  const key = keys.get(bytes) ?? createSecretKey(bytes)
  keys.set(bytes, key)
  return key
}

/** A request reduced to 32 bytes that tell whether another one is the same, and nothing else. */
export function fingerprint(key: Uint8Array, request: unknown): Uint8Array {
  return new Uint8Array(createHmac('sha256', keyOf(key)).update(canonicalJson(request)).digest())
}
