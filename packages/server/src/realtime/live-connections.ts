import type { WebSocket } from 'ws'

/** A client that has not taken this much is cut off: it would only grow. */
const MAX_UNREAD_BYTES = 8_388_608
/** How long a client may take to answer a closing handshake. */
const CLOSE_TIMEOUT_MS = 2_000

export const CLOSE = { goingAway: 1001, limit: 1008, failed: 1011, overloaded: 1013 } as const

/** The open connections of a server: pinged together, and closed together. */
export class LiveConnections {
  readonly #answered = new Map<WebSocket, boolean>()
  readonly #timer: NodeJS.Timeout

  constructor(heartbeatMs: number) {
    this.#timer = setInterval(() => this.#beat(), heartbeatMs).unref()
  }

  add(socket: WebSocket): void {
    this.#answered.set(socket, true)
    socket.on('pong', () => this.#answered.set(socket, true))
    socket.on('close', () => this.#answered.delete(socket))
  }

  /** Says that the server goes away, and does not wait for clients that do not listen. */
  closeAll(): void {
    clearInterval(this.#timer)
    for (const socket of this.#answered.keys()) closeSocket(socket, CLOSE.goingAway, 'server shutting down')
  }

  #beat(): void {
    for (const [socket, answered] of this.#answered) {
      if (!answered) {
        socket.terminate()
        continue
      }
      this.#answered.set(socket, false)
      socket.ping()
    }
  }
}

/** Closes a connection with a reason, and by force when the client does not answer. */
export function closeSocket(socket: WebSocket, code: number, reason: string): void {
  if (socket.readyState === socket.CLOSED) return
  socket.resume()
  socket.close(code, reason)
  const force = setTimeout(() => socket.terminate(), CLOSE_TIMEOUT_MS).unref()
  socket.once('close', () => clearTimeout(force))
}

/** Sends JSON to a client that still listens. */
export function sendJson(socket: WebSocket, message: object): void {
  if (socket.readyState !== socket.OPEN) return
  if (socket.bufferedAmount > MAX_UNREAD_BYTES) return closeSocket(socket, CLOSE.limit, 'client reads too slowly')
  socket.send(JSON.stringify(message))
}
