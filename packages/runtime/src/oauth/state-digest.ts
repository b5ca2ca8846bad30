import { createHash } from 'node:crypto'

/** Flows are looked up by a digest of their state: how long a look-up takes tells nothing about the state. */
export function stateDigest(state: string): string {
  return createHash('sha256').update(state).digest('base64url')
}
