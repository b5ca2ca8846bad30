import type { Message, WireItem } from '@bureau/protocol'
import type { FaceAgency } from '../face-host.ts'
import type { ResponseStream } from './response-events.ts'
import type { ResponseResource } from './resource.ts'

/** A response that can be asked for again. */
export type StoredResponse = {
  readonly id: string
  readonly runId: string
  readonly served: FaceAgency
  /** Who has asked for it, as `FaceHost.callerOf` says. */
  readonly owner: string | null
  /** True: its run goes on without its client. */
  readonly isBackground: boolean
  readonly stream: ResponseStream
  /** What the request said, with ids. */
  readonly inputItems: readonly WireItem[]
  /** The response as it is now. */
  readonly resource: () => ResponseResource
  /** Resolves when the run has ended. */
  readonly ended: Promise<void>
  /** The whole conversation, with this response; undefined while it is in progress. */
  readonly thread: () => readonly Message[] | undefined
}

/** Keeps responses for `previous_response_id` and for those who come back. */
export interface ResponseStore {
  /** Undefined: there is none of this id, or it is kept no more. */
  find(id: string): StoredResponse | undefined
  put(response: StoredResponse): void
  /** The size of a response is known: the oldest ones go when there is no room for it. */
  sized(id: string, bytes: number): void
  delete(id: string): void
}
