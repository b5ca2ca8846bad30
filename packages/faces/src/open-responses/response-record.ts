import type { WireItem } from '@bureau/protocol'
import type { ResponsesRequest } from './read-request.ts'

/**
 * What is known of a response from its beginning on. It is JSON: where runs are kept, any process makes the response of it and
 * of the events of its run.
 */
export type ResponseRecord = {
  readonly id: string
  readonly runId: string
  /** The response begins behind this event of its run. */
  readonly after: number
  /** The name of the agency, the agent that was addressed, and both as the caller has named them. */
  readonly agency: string
  readonly agent: string
  readonly model: string
  /** Seconds since the epoch. */
  readonly createdAt: number
  /** True: it can be asked for again. */
  readonly isKept: boolean
  /** The caller's functions that the agent is offered. */
  readonly functions: readonly string[]
  /** As it was checked, without its input and what only tools read. */
  readonly request: ResponsesRequest
  /** What the request said, with ids. */
  readonly inputItems: readonly WireItem[]
}
