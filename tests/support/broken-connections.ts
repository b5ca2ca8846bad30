import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunStorage, StreamEvent } from '@bureau/client'

/** A fetch whose first answers break off after so many bytes of their bodies; the others are whole. */
export function cuttingFetch(...limits: number[]): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, init)
    const limit = limits.shift()
    if (limit === undefined || !response.body) return response
    let left = limit
    const cut = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        controller.enqueue(chunk.subarray(0, left))
        left -= chunk.length
        if (left <= 0) controller.error(new TypeError('terminated'))
      },
    })
    return new Response(response.body.pipeThrough(cut), response)
  }
}

/** A network that is cut once: what is open then breaks, and what comes later goes through. */
export function cuttableFetch(): { readonly cut: () => void; readonly fetch: typeof fetch } {
  const over = new AbortController()
  return {
    cut: () => over.abort(),
    fetch: (input, init) =>
      fetch(input, over.signal.aborted ? init : { ...init, signal: AbortSignal.any([init!.signal!, over.signal]) }),
  }
}

/** All events of a run, to its end. */
export async function eventsOf(run: AsyncIterable<StreamEvent>): Promise<StreamEvent[]> {
  const events: StreamEvent[] = []
  for await (const event of run) events.push(event)
  return events
}

/** What a page has as `localStorage`. */
export function memoryStorage(): RunStorage & { readonly kept: Map<string, string> } {
  const kept = new Map<string, string>()
  return {
    kept,
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, value),
    removeItem: (key) => void kept.delete(key),
  }
}

/**
 * Begins a body of 50 MB, and reads nothing before it has written two of them; then goes on until the server closes the
 * connection.
 *
 * @returns The answer, as it came.
 * @throws The error of the connection, if it broke before the answer could be read.
 */
export async function writeBeforeReading(
  method: string,
  url: string,
  headers: Record<string, string>,
): Promise<string> {
  const { host, hostname, port, pathname, search } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  const closed = new Promise((resolve) => socket.once('close', resolve))
  let broken: Error | undefined
  socket.on('error', (error) => (broken = error))
  const fields = Object.entries({ host, 'content-length': '50000000', ...headers })
  const head = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  socket.write(`${method} ${pathname}${search} HTTP/1.1\r\n${head}\r\n`)
  const write = (): boolean => socket.write('x'.repeat(100_000))
  for (let count = 0; count < 20; count++) {
    write()
    await sleep(5)
  }
  if (broken) throw broken

  let answer = ''
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString()))
  const writing = setInterval(write, 50)
  await closed
  clearInterval(writing)
  return answer
}
