import type { FastifyReply } from 'fastify'
import { sseKeepalive } from '@bureau/protocol'
import { BriefMap } from '../brief-map.ts'

/** A client that reads nothing for this long is cut off. */
const MAX_STALL_MS = 60_000
const KEEPALIVE_MS = 15_000

type StreamedResponse = {
  readonly contentType: string
  /** Text to send, in pieces. Pieces are asked for only while the client reads. */
  readonly chunks: AsyncIterable<string>
  /** True: a comment is sent after 15 s of silence. For server-sent events only. */
  readonly keepalive: boolean
  /** Called at once when the client goes away before the end, or has gone already. */
  readonly onClientLost: () => void
}

/**
 * Writes a streamed answer straight to the socket, one write per piece. The headers go with a first piece that is there
 * at once, so that the answer begins with one packet; otherwise they go alone.
 *
 * The reply's own headers (CORS, its own cache-control and the like) are kept. Resolves when everything is sent or the client is gone.
 */
export async function streamResponse(reply: FastifyReply, response: StreamedResponse): Promise<void> {
  const socket = reply.raw
  reply.hijack()
  // Nobody would be notified of it later.
  if (socket.destroyed) return response.onClientLost()
  socket.writeHead(reply.statusCode, {
    'cache-control': 'no-cache',
    connection: 'keep-alive',
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': response.contentType,
    'x-accel-buffering': 'no',
  })
  let begun = false
  setImmediate(() => begun || socket.flushHeaders())
  let isLost = false
  socket.once('close', () => {
    if (socket.writableFinished) return
    isLost = true
    response.onClientLost()
  })
  const heartbeat = response.keepalive ? heartbeats.add((text) => void socket.write(text)) : undefined
  const chunks = response.chunks[Symbol.asyncIterator]()
  // A call of its own for each piece: a loop that waits for the next one would keep the last.
  const sendNext = async (): Promise<boolean> => {
    const { done, value: text } = await chunks.next()
    if (done || isLost) return false
    if (heartbeat) heartbeat.lastMs = performance.now()
    begun = true
    if (!socket.write(text) && !isLost) await drained(socket)
    return !isLost
  }
  try {
    while (await sendNext());
    if (!isLost) socket.end()
  } catch (error) {
    socket.destroy()
    if (!isLost) throw error
  } finally {
    if (heartbeat) heartbeats.remove(heartbeat)
    await chunks.return?.()
  }
}

/** Calls `lost` once, when the client goes away before its answer is complete; at once when it has gone already. */
export function onClientLost({ raw }: FastifyReply, lost: () => void): void {
  if (raw.destroyed) return lost()
  raw.once('close', () => {
    if (!raw.writableFinished) lost()
  })
}

/** Resolves when the client has read what waits for it, or has left. */
async function drained(socket: FastifyReply['raw']): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const stalled = setTimeout(() => socket.destroy(), MAX_STALL_MS)
  socket.once('drain', resolve).once('close', resolve)
  await promise
  clearTimeout(stalled)
  socket.off('drain', resolve).off('close', resolve)
}

type Heartbeat = { readonly id: number; readonly send: (text: string) => void; lastMs: number }

/** One timer for all open streams of the process. */
class Heartbeats {
  readonly #streams = new BriefMap<number, Heartbeat>()
  #lastId = 0
  #timer: NodeJS.Timeout | undefined

  add(send: (text: string) => void): Heartbeat {
    const heartbeat = { id: ++this.#lastId, send, lastMs: performance.now() }
    this.#streams.set(heartbeat.id, heartbeat)
    this.#timer ??= setInterval(() => this.#beat(), 1_000).unref()
    return heartbeat
  }

  remove({ id }: Heartbeat): void {
    this.#streams.delete(id)
    if (this.#streams.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #beat(): void {
    const now = performance.now()
    const text = sseKeepalive(Date.now())
    for (const heartbeat of this.#streams.values()) {
      if (now - heartbeat.lastMs < KEEPALIVE_MS) continue
      heartbeat.lastMs = now
      heartbeat.send(text)
    }
  }
}

const heartbeats = new Heartbeats()
