import type { EncodeEvent, LogEvent } from '@bureau/runtime'
import { endOf, type FaceHost } from '../face-host.ts'
import type { ResponseResource } from './resource.ts'
import { ResponseEvents } from './response-events.ts'
import type { BegunResponse, Earlier, ResponseStore, StoredResponse } from './response-store.ts'

type Request = Parameters<ResponseStore['find']>[0]

const MAX_RESPONSES = 10_000
/** Of all together. */
const MAX_BYTES = 134_217_728

type Kept = {
  readonly owner: string | null
  readonly response: StoredResponse
  readonly keptUntil: number
  bytes: number
}

/**
 * The responses of this process, each for a while and the newest ones as far as there is room. A conversation counts with
 * each of its responses as a whole, though they share its items.
 */
export class MemoryResponseStore implements ResponseStore {
  readonly continuesRuns = false
  readonly #host: FaceHost
  readonly #keepMs: number
  readonly #responses = new Map<string, Kept>()
  #bytes = 0
  #expiry: NodeJS.Timeout | undefined

  /** @param keepMs - How long a response is kept after it was begun, in milliseconds. */
  constructor(host: FaceHost, keepMs: number) {
    this.#host = host
    this.#keepMs = keepMs
  }

  async put(request: Request, begun: BegunResponse): Promise<EncodeEvent> {
    const { record, served, run, events } = begun
    const owner = await this.#host.callerOf(request, served)
    const { response, watch, fail } = storedResponse(begun, (bytes) => this.#sized(record.id, bytes))
    const keptUntil = performance.now() + this.#keepMs
    this.#responses.set(record.id, { owner, response, keptUntil, bytes: 0 })
    this.#makeRoom()
    if (this.#expiry === undefined) this.#expiry = this.#expireAfter(this.#keepMs)
    if (!record.request.background) return watch
    // Whoever has asked for it may leave.
    void endOf(run, new AbortController().signal, watch).catch(fail)
    const shown = new ResponseEvents(events.stream)
    return (event) => shown.encode(event)
  }

  async find(request: Request, id: string): Promise<StoredResponse | undefined> {
    const kept = this.#responses.get(id)
    if (!kept) return undefined
    const caller = await this.#host.callerOf(request, kept.response.served)
    return kept.owner === caller ? kept.response : undefined
  }

  async delete(_request: Request, { record }: StoredResponse): Promise<void> {
    this.#forget(record.id)
  }

  #forget(id: string): void {
    this.#bytes -= this.#responses.get(id)?.bytes ?? 0
    this.#responses.delete(id)
  }

  /** The size of a response is known: the oldest ones go when there is no room for it. */
  #sized(id: string, bytes: number): void {
    const kept = this.#responses.get(id)
    if (!kept) return
    this.#bytes += bytes - kept.bytes
    kept.bytes = bytes
    this.#makeRoom()
  }

  #makeRoom(): void {
    for (const id of this.#responses.keys()) {
      if (this.#responses.size <= MAX_RESPONSES && this.#bytes <= MAX_BYTES) return
      this.#forget(id)
    }
  }

  /** One timer, for the oldest: all are kept for the same time. */
  #expireAfter(ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      const now = performance.now()
      for (const [id, { keptUntil }] of this.#responses) {
        if (keptUntil > now) break
        this.#forget(id)
      }
      const [oldest] = this.#responses.values()
      this.#expiry = oldest && this.#expireAfter(Math.max(1, oldest.keptUntil - now))
    }, ms).unref()
  }
}

type Watched = {
  readonly response: StoredResponse
  /** Encodes the events of the run, and learns from them how the response is. */
  readonly watch: EncodeEvent
  /** The run cannot be followed to its end. */
  readonly fail: () => void
}

function storedResponse({ record, served, earlier, events }: BegunResponse, onSized: (bytes: number) => void): Watched {
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  let thread: Earlier | undefined
  let broken: ResponseResource | undefined
  return {
    response: { record, served, resource: async () => broken ?? events.resource, thread: async () => thread, ended },
    watch: (event: LogEvent) => {
      const text = events.encode(event)
      if (event.type !== 'run.ended') return text
      const { output } = events.resource
      thread = { thread: [...earlier, ...event.new_messages], known: output }
      onSized(JSON.stringify([events.resource, record.inputItems, thread.thread]).length)
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
