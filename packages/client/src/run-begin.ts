import type { Message } from '@bureau/protocol'
import type { Part } from './parts.ts'
import type { Result } from './result.ts'
import type { Asking } from './retry.ts'
import type { Call } from './send.ts'
import type { Decision, Server } from './server.ts'

/** The ids of a run that has begun. */
export type Started = {
  readonly run: string
  /** The platform's id of the chat; null on a self-hosted server. */
  readonly chat: string | null
  /** The id of the request that began it; null where that cannot be known. */
  readonly request: string | null
}

export type Ways = Asking & { readonly server: Server }

/** A message to send, or a run that is there, to be followed behind event number `after`. */
export type RunOrigin =
  | { readonly call: Call; readonly request: string }
  | { readonly run: string; readonly after?: number }

export type Decided = Decision & { readonly token?: string | undefined }

/** How a run begins, and who is notified of what becomes of it. */
export type Begin<Run> = {
  readonly from: RunOrigin
  readonly message: unknown
  /** What there was to show of a run that goes on after approvals. */
  readonly before: readonly Part[] | undefined
  readonly signal?: AbortSignal | undefined
  readonly onStarted: (started: Started) => void
  /** The run is over, with these messages, or never began, or it `waits`. */
  readonly onEnded: (ended: Partial<Started>, messages: readonly Message[], waits: boolean) => void
  /** Follows the run on when everything that it has waited for is decided; `after` is the number of its last event. */
  readonly goOn: (run: Run, result: Result, after: number, decided: readonly Decided[]) => Run
}
