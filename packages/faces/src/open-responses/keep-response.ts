import type { Message } from '@bureau/protocol'
import type { EncodeEvent, LogEvent } from '@bureau/runtime'
import type { ResponseResource } from './resource.ts'
import type { ResponseEvents } from './response-events.ts'
import type { ResponseStore, StoredResponse } from './response-store.ts'

type New = Omit<StoredResponse, 'resource' | 'ended' | 'thread'>

type Watching = {
  /** The conversation before it. */
  readonly earlier: readonly Message[]
  readonly events: ResponseEvents
  readonly store: ResponseStore
}

type Keeping = {
  readonly response: StoredResponse
  /** Encodes the events of the run, and learns from them how the response is. */
  readonly watch: EncodeEvent
  /** The run cannot be followed to its end. */
  readonly fail: () => void
}

/** A response whose run has begun. */
export function storedResponse(given: New, { earlier, events, store }: Watching): Keeping {
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  let thread: readonly Message[] | undefined
  let broken: ResponseResource | undefined
  return {
    response: { ...given, resource: () => broken ?? events.resource, ended, thread: () => thread },
    watch: (event: LogEvent) => {
      const text = events.encode(event)
      if (event.type !== 'run.ended') return text
      thread = [...earlier, ...event.new_messages]
      const { resource } = events
      store.sized(given.id, sizeOf([resource, given.inputItems, thread]))
      resolve()
      return text
    },
    fail: () => {
      broken = { ...events.resource, status: 'failed', error: BROKEN }
      resolve()
    },
  }
}

const BROKEN = { code: 'stream_unavailable', message: 'The run could not be followed to its end.' }

const sizeOf = (value: unknown): number => JSON.stringify(value).length
