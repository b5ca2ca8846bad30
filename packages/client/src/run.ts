import type { CancelMode, Message } from '@bureau/protocol'
import { BureauError } from './error.ts'
import { type Part, Parts } from './parts.ts'
import { readStream, Silence } from './read-stream.ts'
import { type MessagesFrame, messagesOf, type Result, resultOf } from './result.ts'
import { ask, type Asking, retrying } from './retry.ts'
import { type Call, connectionLost, send } from './send.ts'
import type { Server } from './server.ts'
import { readEvent, type StreamEvent } from './stream-event.ts'

/** The ids of a run that has begun. */
export type Started = {
  readonly run: string
  /** The platform's id of the chat; null on a self-hosted server. */
  readonly chat: string | null
  /** The id of the request that began it; null where that cannot be known. */
  readonly request: string | null
}

export type Ways = Asking & { readonly server: Server }

/** A message to send, or a run that is there. */
export type RunOrigin = { readonly call: Call; readonly request: string } | { readonly run: string }

type Begin = {
  readonly from: RunOrigin
  readonly signal?: AbortSignal | undefined
  readonly onStarted: (started: Started) => void
  /** The run is over, with these messages, or never began. */
  readonly onEnded: (ended: Partial<Started>, messages: readonly Message[]) => void
}

type MetaFrame = { readonly run_id: string; readonly chatId?: string; readonly usageRequestId?: string | null }

/** A connection that lasted for so long is as good as one that brought something new: runs may be silent for minutes. */
const LASTING_MS = 10_000

/**
 * A message that is being answered.
 *
 * It is an async iterable of its events: each iteration begins with the first one, ends with the run, and throws what
 * `result` rejects with. It goes on by itself whether anybody iterates or not.
 */
export class Run implements AsyncIterable<StreamEvent> {
  /** Resolves when the run has begun and its ids are known. */
  readonly started: Promise<Started>
  /**
   * How the run ended.
   *
   * @throws BureauError the run failed or was refused, the connection was lost for good, or `detach()` was called.
   */
  readonly result: Promise<Result>
  readonly #ways: Ways
  readonly #begin: Begin
  readonly #events: StreamEvent[] = []
  readonly #parts = new Parts()
  readonly #listeners = new Set<() => void>()
  readonly #leaving = new AbortController()
  #resolveStarted: (started: Started) => void = () => {}
  #ids: Partial<Started>
  #connection: 'connecting' | 'open' | 'reconnecting' | 'closed' = 'connecting'
  #lastNumber = 0
  #end: MessagesFrame | undefined
  #failure: Error | undefined

  constructor(ways: Ways, begin: Begin) {
    this.#ways = ways
    this.#begin = begin
    this.#ids = 'run' in begin.from ? { run: begin.from.run } : { request: begin.from.request }
    const started = new Promise<Started>((resolve) => (this.#resolveStarted = resolve))
    this.result = this.#follow()
    this.started = Promise.race([started, this.result.then(() => started)])
    // Who needs only one of them must not be told of the others' rejections as unhandled.
    for (const each of [this.result, this.started]) each.catch(() => {})
  }

  /** The id of the request, known at once; of a run that was attached to once it has started. */
  get request(): string | null {
    return this.#ids.request ?? null
  }

  get connection(): 'connecting' | 'open' | 'reconnecting' | 'closed' {
    return this.#connection
  }

  /** What there is to show so far. The same array as long as nothing changes; parts never change, they are replaced. */
  get parts(): readonly Part[] {
    return this.#parts.all
  }

  /** Calls `changed` after every event and change of the connection. Returns what ends it. */
  subscribe(changed: () => void): () => void {
    this.#listeners.add(changed)
    return () => void this.#listeners.delete(changed)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<StreamEvent, void> {
    for (let at = 0; ; at += 1) {
      while (at >= this.#events.length && this.#connection !== 'closed') await this.#change()
      const event = this.#events[at]
      if (event) yield event
      else if (this.#failure === undefined || this.#leaving.signal.aborted) return
      else throw this.#failure
    }
  }

  /** What the agents say to the user, as it comes. Throws as iterating over the events does. */
  async *text(): AsyncGenerator<string, void> {
    for await (const event of this) {
      if (event.type !== 'raw_response_event' || event.callerAgent !== null) continue
      if (event.data.type === 'response.output_text.delta') yield event.data.delta ?? ''
    }
  }

  /**
   * Stops the run at the server: `immediate` at once, `after_turn` when its turn is done. Resolves when the server has
   * heard it; the run ends as `cancelled`. Does nothing to a run that is over.
   *
   * @throws BureauError the run did not begin, or the server cannot be reached.
   */
  async cancel(mode: CancelMode = 'immediate'): Promise<void> {
    const { run } = await this.started
    try {
      await ask(this.#ways, this.#ways.server.cancel(run, mode))
    } catch (error) {
      if (!(error instanceof BureauError) || error.status !== 404) throw error
    }
  }

  /**
   * Stops listening: iterations end, `result` rejects with `detached`. The run goes on, except on a self-hosted server
   * without `resume`, which stops the run of a client that leaves.
   */
  detach(): void {
    this.#leaving.abort()
  }

  async #follow(): Promise<Result> {
    const { retryDelaysMs: delaysMs } = this.#ways
    const { signal } = this.#leaving
    const leave = (): void => this.detach()
    if (this.#begin.signal?.aborted) leave()
    this.#begin.signal?.addEventListener('abort', leave)
    try {
      await retrying((progress) => this.#connect(progress), {
        delaysMs,
        mayRetry: (error) => {
          const goesOn = !signal.aborted && this.#mayRetry(error)
          if (goesOn && this.#connection === 'open') this.#setConnection('reconnecting')
          return goesOn
        },
        signal,
      })
      return this.#resultOf()
    } catch (error) {
      this.#failure = this.#described(error)
      throw this.#failure
    } finally {
      this.#begin.signal?.removeEventListener('abort', leave)
      this.#setConnection('closed')
    }
  }

  #mayRetry({ status, retryable }: BureauError): boolean {
    const { server } = this.#ways
    if (this.#ids.run !== undefined) return retryable && server.resumes
    // Of these a server has begun nothing. All else is safe only where the same request never begins a second run.
    return retryable && (server.resends || status === 429 || status === 503)
  }

  /** Follows the run over one connection. Returns when the run is over. */
  async #connect(progress: () => void): Promise<void> {
    const { connection, server, silenceMs } = this.#ways
    const { from } = this.#begin
    const { run } = this.#ids
    const { signal } = this.#leaving
    const call = run === undefined && 'call' in from ? from.call : server.follow(run ?? '', this.#lastNumber)
    const attempt = new AbortController()
    const stop = (): void => attempt.abort()
    const silence = new Silence(silenceMs, stop)
    signal.addEventListener('abort', stop)
    try {
      if (signal.aborted) throw connectionLost()
      const response = await send(connection, call, attempt.signal)
      if (response.status === 204 && this.#end) return
      this.#setConnection('open')
      const openedAt = Date.now()
      const heard = (): void => {
        silence.heard()
        if (Date.now() - openedAt > LASTING_MS) progress()
      }
      for await (const { event, data, id } of readStream(response, heard)) {
        if (event === 'end') return
        if (this.#take(event, data, id)) progress()
      }
      throw connectionLost()
    } finally {
      silence.end()
      signal.removeEventListener('abort', stop)
      stop()
    }
  }

  /** False: the frame was there before, or is no event. */
  #take(name: string | undefined, data: string, id: string | undefined): boolean {
    if (name === 'meta') {
      this.#start(JSON.parse(data) as MetaFrame)
      return false
    }
    const number = Number(id ?? 0)
    if (id !== undefined && number <= this.#lastNumber) return false
    this.#lastNumber = number
    if (name === 'messages') this.#end = JSON.parse(data) as MessagesFrame
    const event = readEvent(name, data)
    if (event) {
      this.#events.push(event)
      this.#parts.add(event)
      this.#notify()
    }
    return true
  }

  #start(meta: MetaFrame): void {
    const request = this.#ids.request ?? meta.usageRequestId ?? null
    const started = { run: meta.run_id, chat: meta.chatId ?? null, request }
    if (this.#ids.chat === undefined) this.#begin.onStarted(started)
    this.#ids = started
    this.#resolveStarted(started)
  }

  #resultOf(): Result {
    this.#parts.end()
    const end = { frame: this.#end, last: this.#events.at(-1) }
    this.#begin.onEnded(this.#ids, messagesOf(end))
    return resultOf(end)
  }

  #described(error: unknown): Error {
    const { run } = this.#ids
    if (this.#leaving.signal.aborted) {
      return new BureauError('detached', 'Nobody listens to the run any more.', {
        run,
        cause: this.#begin.signal?.reason,
      })
    }
    if (!(error instanceof BureauError)) return error instanceof Error ? error : new Error(String(error))
    const { status = 0 } = error
    const isRefused = run === undefined && status >= 400 && status < 500 && status !== 429
    if (isRefused || status === 404) this.#begin.onEnded(this.#ids, [])
    error.run ??= run
    return error
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      const off = this.subscribe(() => {
        off()
        resolve()
      })
    })
  }

  #setConnection(state: Run['connection']): void {
    this.#connection = state
    this.#notify()
  }

  #notify(): void {
    for (const listener of this.#listeners) listener()
  }
}
