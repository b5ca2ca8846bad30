import { EventEmitter, once } from 'node:events'
import {
  type AuthorizationFlow,
  type Completed,
  FLOW_LIFETIME_MS,
  type FlowAnswer,
  type FlowStatus,
  type NewFlow,
  type OAuthStateRegistry,
  type Waited,
} from './oauth-state-registry.ts'
import { stateDigest } from './state-digest.ts'

type Entry = { flow: AuthorizationFlow; query: string | undefined; readonly expiresAt: number }

/** Embedded: the flows of this process. */
export class MemoryOAuthStateRegistry implements OAuthStateRegistry {
  readonly #entries = new Map<string, Entry>()
  readonly #changed = new EventEmitter().setMaxListeners(0)
  readonly #now: () => number

  /** `now` answers monotonic milliseconds: a clock that is set must not change how long anything counts. */
  constructor(options: { readonly now?: () => number } = {}) {
    this.#now = options.now ?? (() => performance.now())
  }

  async open(flow: NewFlow): Promise<void> {
    this.#prune()
    const opened = { ...flow, status: 'pending' as const, createdAt: Date.now() }
    const entry = { flow: opened, query: undefined, expiresAt: this.#now() + FLOW_LIFETIME_MS }
    // Deleted first, so that the map stays in the order of age.
    this.#entries.delete(stateDigest(flow.state))
    this.#entries.set(stateDigest(flow.state), entry)
  }

  async complete({ state, userId, outcome }: FlowAnswer): Promise<Completed> {
    const entry = this.#find(state)
    if (!entry) return { accepted: false, because: 'unknown' }
    if (entry.flow.status !== 'pending' || entry.query !== undefined) return refused('settled', entry)
    const foreign = userId !== null && userId !== entry.flow.userId
    if (foreign && 'query' in outcome) this.#end(entry, 'error:user_mismatch')
    if (foreign) return refused('user_mismatch', entry)
    if ('error' in outcome) this.#end(entry, `error:${outcome.error}`)
    else {
      entry.query = outcome.query
      this.#changed.emit(stateDigest(state))
    }
    return { accepted: true, flow: entry.flow }
  }

  async wait(state: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<Waited> {
    options.signal.throwIfAborted()
    const answered = await this.#until(state, options, () => {
      const entry = this.#find(state)
      if (!entry) return { status: 'error:unknown_state' as const }
      if (entry.query !== undefined) return { query: entry.query }
      const { status } = entry.flow
      return status === 'pending' || status === 'authorized' ? undefined : { status }
    })
    if (answered) return answered
    await this.settle(state, 'timeout')
    return { status: 'timeout' }
  }

  async settle(state: string, status: Exclude<FlowStatus, 'pending'>): Promise<void> {
    const entry = this.#find(state)
    if (entry?.flow.status === 'pending') return this.#end(entry, status)
    if (entry) return
    await this.open({ state, authUrl: '', server: '', userId: '' })
    this.#end(this.#find(state)!, status)
  }

  async settled(state: string, timeoutMs: number): Promise<AuthorizationFlow | undefined> {
    const ended = (): AuthorizationFlow | undefined => {
      const flow = this.#find(state)?.flow
      return flow?.status === 'pending' ? undefined : flow
    }
    if (!this.#find(state)) return undefined
    return (await this.#until(state, { timeoutMs }, ended)) ?? this.#find(state)?.flow
  }

  async find(state: string): Promise<AuthorizationFlow | undefined> {
    return this.#find(state)?.flow
  }

  async close(): Promise<void> {
    this.#entries.clear()
  }

  #find(state: string): Entry | undefined {
    this.#prune()
    return this.#entries.get(stateDigest(state))
  }

  #end(entry: Entry, status: FlowStatus): void {
    entry.flow = { ...entry.flow, status }
    this.#changed.emit(stateDigest(entry.flow.state))
  }

  /** Asks again whenever the flow changes; undefined when the time is over. */
  async #until<Found>(
    state: string,
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
    ask: () => Found | undefined,
  ): Promise<Found | undefined> {
    const timeout = AbortSignal.timeout(Math.ceil(timeoutMs))
    const stop = AbortSignal.any(signal ? [signal, timeout] : [timeout])
    for (;;) {
      const found = ask()
      if (found !== undefined) return found
      try {
        await once(this.#changed, stateDigest(state), { signal: stop })
      } catch {
        signal?.throwIfAborted()
        return undefined
      }
    }
  }

  #prune(): void {
    const now = this.#now()
    for (const [digest, { expiresAt }] of this.#entries) {
      if (expiresAt > now) return
      this.#entries.delete(digest)
    }
  }
}

function refused(because: 'settled' | 'user_mismatch', { flow }: Entry): Completed {
  return { accepted: false, because, flow }
}
