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
