import type { Socket } from 'node:net'

/** A request as a stand-in for the provider sees it. */
export type ProviderRequest = { readonly line: string; readonly body: Buffer }

type ReadRequest = ProviderRequest & { readonly length: number }

const HEAD_END = Buffer.from('\r\n\r\n')

/** Calls `answer` for each request of a connection. Bodies need a `content-length`. */
export function serveRequests(socket: Socket, answer: (socket: Socket, request: ProviderRequest) => void): void {
  socket.setNoDelay(true)
  let pending: Buffer = Buffer.alloc(0)
  socket.on('data', (bytes: Buffer) => {
    pending = pending.length === 0 ? bytes : Buffer.concat([pending, bytes])
    for (let request = readRequest(pending); request; request = readRequest(pending)) {
      pending = pending.subarray(request.length)
      answer(socket, request)
    }
  })
  socket.on('error', () => socket.destroy())
}

/** The first request in `bytes`, or null while it is not complete. */
function readRequest(bytes: Buffer): ReadRequest | null {
  const headEnd = bytes.indexOf(HEAD_END)
  if (headEnd < 0) return null
  const head = bytes.toString('latin1', 0, headEnd)
  const bodyStart = headEnd + HEAD_END.length
  const length = bodyStart + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
  if (bytes.length < length) return null
  return { line: head.slice(0, head.indexOf('\r\n')), body: bytes.subarray(bodyStart, length), length }
}

type Playing = {
  /** Milliseconds between two writes; 0 sends all at once. */
  readonly paceMs: number
  /** Calls `onLast` after the last write. */
  readonly onLast?: () => void
}

/** Sends an answer write by write. */
export function play(socket: Socket, writes: readonly Buffer[], { paceMs, onLast }: Playing): void {
  let next = 0
  const step = (): boolean => {
    const bytes = writes[next++]
    if (!bytes || socket.destroyed) return false
    socket.write(bytes)
    if (next === writes.length) onLast?.()
    return next < writes.length
  }
  if (paceMs === 0) while (step()) continue
  else if (step()) paced(paceMs, step)
}

/** Answers that wait for their next write, by pace. One timer drives all of a pace: one for each would cost more. */
const waiting = new Map<number, Set<() => boolean>>()

function paced(paceMs: number, step: () => boolean): void {
  const steps = waiting.get(paceMs)
  if (steps) return void steps.add(step)
  const started = new Set([step])
  waiting.set(paceMs, started)
  const timer = setInterval(() => {
    for (const each of started) if (!each()) started.delete(each)
    if (started.size > 0) return
    clearInterval(timer)
    waiting.delete(paceMs)
  }, paceMs)
}
