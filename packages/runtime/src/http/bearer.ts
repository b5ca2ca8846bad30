import { hash, timingSafeEqual } from 'node:crypto'

/** The token of an `Authorization: Bearer …` header; undefined when there is none (RFC 6750, section 2.1). */
export function readBearer(header: string | undefined): string | undefined {
  return /^bearer +(\S+) *$/i.exec(header ?? '')?.[1]
}

/** Compares in constant time, whatever the lengths. */
export function sameSecret(given: string, expected: string): boolean {
  return timingSafeEqual(sha256(given), sha256(expected))
}

function sha256(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
