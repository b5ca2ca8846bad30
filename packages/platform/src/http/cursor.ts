import { createHmac, timingSafeEqual } from 'node:crypto'
import { ServiceError } from '@bureau/protocol'
import { z } from 'zod'
import { canonicalJson } from '../security/fingerprint.ts'
import type { Position } from '../db/page.ts'

/** The list a cursor belongs to. With another owner, route or filter it is refused. */
export type CursorBinding = {
  readonly ownerId: string
  readonly route: string
  readonly filters: Readonly<Record<string, string | number | boolean | null | undefined>>
}

const Position = z.tuple([z.string(), z.string()])
const MAC_BYTES = 8

/** The opaque text that continues a list after `position`. */
export function encodeCursor(serverKey: Uint8Array, binding: CursorBinding, position: Position): string {
  const body = Buffer.from(JSON.stringify(position))
  return Buffer.concat([body, mac(serverKey, binding, body)]).toString('base64url')
}

/** @throws ServiceError `invalid_cursor`: altered, or of another list. */
export function decodeCursor(serverKey: Uint8Array, binding: CursorBinding, cursor: string): Position {
  const bytes = Buffer.from(cursor, 'base64url')
  const body = bytes.subarray(0, -MAC_BYTES)
  const expected = mac(serverKey, binding, body)
  const given = bytes.subarray(-MAC_BYTES)
  // Other texts decode to the same bytes; only the one that was given out counts.
  const genuine =
    given.length === MAC_BYTES && timingSafeEqual(given, expected) && bytes.toString('base64url') === cursor
  if (!genuine) throw new ServiceError('invalid_cursor')
  return Position.parse(JSON.parse(body.toString()))
}

function mac(serverKey: Uint8Array, binding: CursorBinding, body: Uint8Array): Buffer {
  const hmac = createHmac('sha256', serverKey).update(`cursor|${canonicalJson(binding)}|`)
  return hmac.update(body).digest().subarray(0, MAC_BYTES)
}
