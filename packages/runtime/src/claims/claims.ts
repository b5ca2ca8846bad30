import { hash } from 'node:crypto'

/** Things that may happen once: of many who claim an id, one succeeds. */
export interface Claims {
  /**
   * True for the first who claims this id, on any process; false for all others, also after a restart, until `until`
   * (milliseconds since the epoch). After that nobody may ask any more.
   */
  claim(id: string, until: number): Promise<boolean>

  /** Takes a claim back, of something that did not happen after all. */
  release(id: string): Promise<void>
}

/** Ids are kept as digests: they may be long, and hold what callers have named. */
export function claimDigest(id: string): string {
  return hash('sha256', id, 'base64url')
}
