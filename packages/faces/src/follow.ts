import { type RunEnded, ServiceError } from '@bureau/protocol'
import {
  type EncodeEvent,
  encodeBatches,
  endingWith,
  onClientLost,
  StreamBroken,
  streamResponse,
} from '@bureau/runtime'
import type { FastifyReply } from 'fastify'
import { endOf, type FaceRun } from './face-host.ts'

const EVENT_STREAM = 'text/event-stream; charset=utf-8'

type Sending = {
  readonly encode: EncodeEvent
  /** Default: that of OpenAI's API. */
  readonly contentType?: string
  /** What a stream ends with whose client may read no longer. Default: it breaks off. */
  readonly refused?: (error: ServiceError) => string
}

/** Streams a run to the client that has begun it, or comes back to it. What is not kept ends with its client. */
export async function sendEvents(
  reply: FastifyReply,
  run: FaceRun,
  { encode, contentType = EVENT_STREAM, refused }: Sending,
): Promise<void> {
  const client = new Client(run)
  try {
    const all = encodeBatches(run.read(run.after, client.signal), encode)
    const chunks = endingWith(all, (error) => (error instanceof ServiceError ? refused?.(error) : undefined))
    await streamResponse(reply, {
      contentType,
      chunks,
      keepalive: true,
      onClientLost: () => client.leave(),
    })
  } catch (error) {
    if (!(error instanceof StreamBroken) && !client.signal.aborted) throw error
  }
}

/** Waits for the end of a run; undefined when the client has left before: then there is nothing to answer. */
export async function waitForEnd(
  reply: FastifyReply,
  run: FaceRun,
  watch?: EncodeEvent,
): Promise<RunEnded | undefined> {
  const client = new Client(run)
  onClientLost(reply, () => client.leave())
  try {
    return await endOf(run, client.signal, watch)
  } catch (error) {
    if (!client.signal.aborted) throw error
    reply.hijack()
    return undefined
  }
}

/** Who has asked for a run, and may go away. */
class Client {
  readonly #left = new AbortController()
  readonly #run: FaceRun

  constructor(run: FaceRun) {
    this.#run = run
  }

  get signal(): AbortSignal {
    return this.#left.signal
  }

  leave(): void {
    this.#left.abort(new Error('the client has left'))
    this.#run.leave()
  }
}
