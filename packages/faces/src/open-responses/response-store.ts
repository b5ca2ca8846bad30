import type { Message, WireItem } from '@bureau/protocol'
import type { EncodeEvent } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import type { FaceAgency, FaceRun } from '../face-host.ts'
import type { ResponseResource } from './resource.ts'
import type { ResponseRecord } from './response-record.ts'
import type { ResponseEvents } from './response-events.ts'

/** A response that has begun. */
export type BegunResponse = {
  readonly record: ResponseRecord
  readonly served: FaceAgency
  readonly run: FaceRun
  /** The conversation before it, where the server does not keep it itself. */
  readonly earlier: readonly Message[]
  readonly events: ResponseEvents
}

/** What a request goes on with. */
export type Earlier = {
  /** The conversation; null: the server has it. */
  readonly thread: readonly Message[] | null
  /** The output of the response before, of which its calls and the tokens of approvals are known. */
  readonly known: readonly WireItem[]
}

/** A response that is asked for again, by whom it belongs to. */
export type StoredResponse = {
  readonly record: ResponseRecord
  readonly served: FaceAgency
  /** The response as it is now. */
  readonly resource: () => Promise<ResponseResource>
  /** What a request goes on with: the conversation with this response, and its output. Undefined while it is in progress. */
  readonly thread: () => Promise<Earlier | undefined>
  /** Resolves when a run that has ended is known to have. */
  readonly ended: Promise<void>
}

/** Keeps responses for `previous_response_id` and for those who come back. */
export interface ResponseStore {
  /** True: the server keeps conversations and goes on with that of a run; the store has none. */
  readonly continuesRuns: boolean

  /**
   * Keeps a response, before its client learns its id.
   *
   * @returns What encodes the events of its run for that client.
   */
  put(request: FastifyRequest, begun: BegunResponse): Promise<EncodeEvent>

  /** Undefined: the caller has none of this id, or it is kept no more. */
  find(request: FastifyRequest, id: string): Promise<StoredResponse | undefined>

  delete(request: FastifyRequest, response: StoredResponse): Promise<void>
}
