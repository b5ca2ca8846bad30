import { hash } from 'node:crypto'

/** Flows are looked up by a digest of their state: how long a look-up takes tells nothing about the state. */
export function stateDigest(state: string): string {
  return hash('sha256', state, 'base64url')
}
