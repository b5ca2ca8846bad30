import { type ServiceError, sseFrame } from '@bureau/protocol'
import type { FastifyReply } from 'fastify'
import { encodeBatches, endingWith, StreamBroken, streamResponse } from '@bureau/runtime'
import type { Call } from '../http/route.ts'
import type { RunStream } from '../runs/follow-run.ts'
import { completionEncoder, encodeMeta, type StreamMeta } from './encode-completion.ts'
import { encodeText } from './encode-text.ts'
import { lifeOfToken } from './token-life.ts'

type Followed = {
  readonly stream: RunStream
  /** Counts the client. Called when nothing can refuse it any more; what it returns, once it has gone or has everything. */
  readonly follow: () => () => void
  /** Aborts when the reader may read no longer. Absent: never. */
  readonly life?: AbortSignal | undefined
}

export function followed(call: Call, reply: FastifyReply, stream: RunStream): Followed {
  const { platform } = call
  const follow = (): (() => void) => platform.executor.find(stream.run.runId)?.follow() ?? (() => {})
  return { stream, follow, life: lifeOfToken(platform, call, reply) }
}

/** Sends a run as server-sent events: `meta`, then the events after `resumeFrom`. */
export async function sendEvents(reply: FastifyReply, followed: Followed, meta: StreamMeta): Promise<void> {
  const lost = new AbortController()
  const events = followed.stream.reader.read(meta.resumeFrom, lost.signal)
  const all = encodeBatches(events, completionEncoder(meta.chatId), encodeMeta(meta))
  const chunks = endingWith(all, (error) => lastWords(error, followed.life))
  await send(reply, followed, { lost, contentType: 'text/event-stream', chunks, keepalive: true })
}

/** How soon a client is to come again when the run goes on in another process. */
const AGAIN_MS = 500

const GIVEN_UP = new Set<StreamBroken['reason']>(['run_handed_over', 'server_shutdown'])

/**
 * What a stream without an `end` closes with: when its run goes on elsewhere, how soon its client is to come again; when its
 * reader may read no longer, why. Undefined: it breaks off.
 */
function lastWords(error: unknown, life: AbortSignal | undefined): string | undefined {
  if (error instanceof StreamBroken && GIVEN_UP.has(error.reason)) return `retry: ${AGAIN_MS}\n\n`
  if (!life?.aborted) return undefined
  const { code, message } = life.reason as ServiceError
  return sseFrame(JSON.stringify({ code, error: message }), { event: 'token_ended' })
}

/**
 * Sends the text of a run from a byte on. A failed run ends in a reset connection, never in a sentence.
 *
 * @returns False: the reader has the whole text of a run that is over; nothing was sent.
 * @throws ServiceError `invalid_offset`
 */
export async function sendText(reply: FastifyReply, followed: Followed, offset: number): Promise<boolean> {
  const lost = new AbortController()
  const text = await encodeText(followed.stream.reader, { offset, signal: lost.signal })
  if (!text) return false
  reply.header('trailer', 'X-Agent-Run-Status')
  const chunks = withStatus(reply, text)
  await send(reply, followed, { lost, contentType: 'text/plain; charset=utf-8', chunks, keepalive: false })
  return true
}

/** How the run ended follows its text as a trailer. */
async function* withStatus(reply: FastifyReply, text: AsyncGenerator<string, string>): AsyncGenerator<string, void> {
  const status = yield* text
  reply.raw.addTrailers({ 'X-Agent-Run-Status': status })
}

type Sending = {
  readonly lost: AbortController
  readonly contentType: string
  readonly chunks: AsyncIterable<string>
  readonly keepalive: boolean
}

async function send(reply: FastifyReply, { follow, life }: Followed, { lost, ...sending }: Sending): Promise<void> {
  const onLeft = follow()
  life?.addEventListener('abort', () => lost.abort(life.reason), { once: true })
  reply.header('cache-control', 'no-cache, no-transform')
  try {
    await streamResponse(reply, { ...sending, onClientLost: () => lost.abort() })
  } catch (error) {
    // The connection was reset: the client knows that it does not have the whole.
    if (!(error instanceof StreamBroken) && !lost.signal.aborted) throw error
  } finally {
    onLeft()
  }
}
