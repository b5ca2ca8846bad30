import type { CancelMode } from '@bureau/protocol'

/** What one process tells all others. */
export type ControlMessage =
  | { readonly type: 'cancel'; readonly runId: string; readonly mode: CancelMode }
  | { readonly type: 'revoked'; readonly keyId: string }
  /** Runs have lost their process, or were given up by it. */
  | { readonly type: 'lost_runs' }

/**
 * Tells the other processes at once what they would learn within seconds: from the records, or when a cache expires.
 * A message may be lost; nothing depends on it.
 */
export interface ControlChannel {
  /** Never waits and never throws. Reaches this process too. */
  tell(message: ControlMessage): void
  close(): Promise<void>
}

/** One process has nobody to tell. */
export const NO_OTHERS: ControlChannel = { tell: () => {}, close: async () => {} }
