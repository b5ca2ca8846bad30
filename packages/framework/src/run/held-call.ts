import type { ApprovalRequest, EventSource } from '@bureau/protocol'

/** A call that waits for a person. */
export type HeldCall = {
  readonly source: EventSource
  readonly request: Omit<ApprovalRequest, 'expires_at' | 'token'>
}
