import type { CancelMode } from '@bureau/protocol'
import { BureauError } from './error.ts'
import { type Part, Parts } from './parts.ts'
import { readStream, watchSilence } from './read-stream.ts'
import { type MessagesFrame, messagesOf, type MetaFrame, type Result, resultOf, textOfRun } from './result.ts'
import { ask, LASTING_MS, retrying } from './retry.ts'
import type { Begin, Decided, Started, Ways } from './run-begin.ts'
import { connectionLost, send } from './send.ts'
import type { Decision } from './server.ts'
import { readEvent, type StreamEvent } from './stream-event.ts'

/**
 * A message that is being answered.
 *
 * It is an async iterable of its events: each iteration begins with the first one, ends with the run, and throws what
 * `result` rejects with. It goes on by itself whether anybody iterates or not.
 */
export class Run<Output = unknown> implements AsyncIterable<StreamEvent> {
  /** Resolves when the run has begun and its ids are known. */
  readonly started: Promise<Started>
  /**
   * How the run ended, or that it waits for approvals.
   *
   * @throws BureauError the run failed or was refused, the connection was lost for good, or `detach()` was called.
   */
  readonly result: Promise<Result<Output>>
  readonly #ways: Ways
  readonly #begin: Begin<Run>
  readonly #events: StreamEvent[] = []
  readonly #parts: Parts
  readonly #listeners = new Set<() => void>()
  readonly #leaving = new AbortController()
  readonly #decided = new Map<string, Decided>()
  #resolveStarted: (started: Started) => void = () => {}
  #ids: Partial<Started>
  #connection: 'connecting' | 'open' | 'reconnecting' | 'closed' = 'connecting'
  #lastNumber: number
  #end: MessagesFrame | undefined
  #failure: Error | undefined
  #next: Run<Output> | null = null

  constructor(ways: Ways, begin: Begin<Run>) {
    const { from, before } = begin
    this.#ways = ways
    this.#begin = begin
    this.#parts = new Parts(before)
    this.#ids = 'run' in from ? { run: from.run } : { request: from.request }
    this.#lastNumber = ('after' in from && from.after) || 0
    const started = new Promise<Started>((resolve) => (this.#resolveStarted = resolve))
    this.result = this.#follow() as Promise<Result<Output>>
    this.started = Promise.race([started, this.result.then(() => started)])
    // Whoever ignores it must not see an unhandled rejection; this handles that of the result too.
    this.started.catch(() => {})
  }

  /** The id of the request, known at once; of a run that was attached to once it has started. */
  get request(): string | null {
    return this.#ids.request ?? null
  }

  /** What was sent; undefined of a run that was attached to where that is not known. */
  get message(): unknown {
    return this.#begin.message
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

  /** What the agents say to the user, as it comes, messages set apart by a blank line. Throws as iterating over the events does. */
  text(): AsyncGenerator<string, void> {
    return textOfRun(this)
  }

  /**
   * Stops the run at the server: `immediate` at once, `after_turn` when its turn is done. Resolves when the server has
   * heard it; the run ends as `cancelled`. Does nothing to a run that is over.
   *
   * @throws BureauError the run did not begin, or the server cannot be reached.
   */
  async cancel(mode: CancelMode = 'immediate'): Promise<void> {
    const { run } = await this.started
    await ask(this.#ways, this.#ways.server.cancel(run, mode)).catch((error: BureauError) => {
      if (error.status !== 404) throw error
    })
    // A self-hosted server keeps nothing of a run that waits: here is where it is over.
    if (this.#end) this.#begin.onEnded(this.#ids, [], false)
  }

  /**
   * Stops listening: iterations end, `result` rejects with `detached`. The run goes on, except on a self-hosted server
   * without `resume`, which stops the run of a client that leaves.
   */
  detach(): void {
    this.#leaving.abort()
  }

  /**
   * Lets a call that waits be made, with other arguments where the approval says `edit`.
   *
   * @returns The run that goes on, once all its calls are decided on, with the parts so far; null as long as others wait.
   * @throws BureauError no such call waits, or the server refuses, e.g. because somebody else has decided.
   */
  approve(callId: string, options: Pick<Decision, 'reason' | 'arguments'> = {}): Promise<Run<Output> | null> {
    return this.#decide({ callId, approve: true, ...options })
  }

  /** Has the model get `reason` instead of the call's output. Otherwise as `approve`. */
  reject(callId: string, reason?: string): Promise<Run<Output> | null> {
    return this.#decide({ callId, approve: false, reason })
  }

  async #decide(decision: Decision): Promise<Run<Output> | null> {
    const result = await this.result
    const approvals = result.status === 'waiting' ? result.approvals : []
    const { callId } = decision
    const approval = approvals.find(({ call_id: id }) => id === callId)
    if (!approval) throw new BureauError('approval_not_found', `No call ${callId} waits.`)
    const call = this.#ways.server.decide?.(result.run, decision)
    if (call) await ask(this.#ways, call)
    this.#decided.set(callId, { ...decision, token: approval.token })
    this.#parts.decide(callId)
    this.#notify()
    if (this.#decided.size < approvals.length) return null
    const decided = [...this.#decided.values()]
    const next = (this.#next ??= this.#begin.goOn(this, result, this.#lastNumber, decided) as Run<Output>)
    // A self-hosted server learns of the decisions now. What it does not understand is not decided, and can be put right.
    const heard = call ? {} : ((await next.started.catch((error: unknown) => error)) as Partial<BureauError>)
    if (heard.status !== 400 && heard.status !== 422) return next
    this.#next = null
    this.#decided.clear()
    for (const each of approvals) this.#parts.askFor(each)
    if (heard.code === 'approval_decided') this.#begin.onEnded(this.#ids, [], false) // it does not wait any more
    this.#notify()
    throw heard as BureauError
  }

  async #follow(): Promise<Result> {
    const { signal } = this.#begin
    const leave = (): void => this.detach()
    if (signal?.aborted) leave()
    signal?.addEventListener('abort', leave)
    try {
      await retrying((progress) => this.#connect(progress), {
        delaysMs: this.#ways.retryDelaysMs,
        mayRetry: (error) => {
          const goesOn = this.#mayRetry(error)
          if (goesOn && this.#connection === 'open') this.#setConnection('reconnecting')
          return goesOn
        },
        signal: this.#leaving.signal,
      })
      return this.#resultOf()
    } catch (error) {
      this.#failure = this.#described(error)
      throw this.#failure
    } finally {
      signal?.removeEventListener('abort', leave)
      this.#setConnection('closed')
    }
  }

  #mayRetry({ status, retryable }: BureauError): boolean {
    if (this.#ways.server.resumes) return retryable
    // Of these a server has begun nothing. All else might begin a second run.
    return retryable && this.#ids.run === undefined && (status === 429 || status === 503)
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
    const heardSomething = watchSilence(silenceMs, attempt)
    // It listens as long as the attempt goes on.
    signal.addEventListener('abort', stop, attempt)
    try {
      if (signal.aborted) throw connectionLost()
      const response = await send(connection, call, attempt.signal)
      if (response.status === 204 && this.#end) return
      this.#setConnection('open')
      const openedAt = Date.now()
      const heard = (): void => {
        heardSomething()
        if (Date.now() - openedAt > LASTING_MS) progress()
      }
      for await (const { event, data, id } of readStream(response, heard)) {
        if (this.#take(event, data, id)) progress()
        if (event === 'end') return
      }
      throw connectionLost()
    } finally {
      stop()
    }
  }

  /** False: the frame was there before, or is not in the log of the run, as the one that says that a token has ended. */
  #take(name: string | null, data: string, id: string | null): boolean {
    if (name === 'meta') {
      this.#start(JSON.parse(data) as MetaFrame)
      return false
    }
    const number = Number(id ?? this.#lastNumber)
    if (id !== null && number <= this.#lastNumber) return false
    this.#lastNumber = number
    if (name === 'messages') this.#end = JSON.parse(data) as MessagesFrame
    const event = readEvent(name, data)
    if (event) {
      this.#events.push(event)
      this.#parts.add(event)
      this.#notify()
    }
    return id !== null
  }

  #start(meta: MetaFrame): void {
    const request = this.#ids.request ?? meta.usageRequestId ?? null
    const started = { run: meta.run_id, chat: meta.chatId ?? null, request }
    if (this.#ids.chat === undefined) this.#begin.onStarted(started)
    this.#ids = started
    this.#resolveStarted(started)
  }

  #resultOf(): Result {
    const end = { frame: this.#end, last: this.#events.at(-1) }
    const waitsFor = this.#end?.approvals ?? null
    this.#parts.end(waitsFor)
    this.#begin.onEnded(this.#ids, messagesOf(end), waitsFor !== null)
    return resultOf(end)
  }

  #described(error: unknown): Error {
    const { run } = this.#ids
    if (this.#leaving.signal.aborted) {
      return new BureauError('detached', 'Nobody listens any more.', {
        run,
        cause: this.#begin.signal?.reason as unknown,
      })
    }
    if (!(error instanceof BureauError)) return error as Error
    const { status = 0 } = error
    const isRefused = run === undefined && status >= 400 && status < 500 && status !== 429
    if (isRefused) this.#begin.onEnded(this.#ids, [], false)
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
