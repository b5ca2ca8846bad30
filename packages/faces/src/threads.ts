import { randomBytes } from 'node:crypto'
import { type Message, ServiceError } from '@bureau/protocol'

const MIB = 1_048_576

type ThreadsOptions = {
  /** Default 10,000. */
  readonly maxThreads?: number
  /** Of all their messages as JSON, about. Default 67,108,864 (64 MiB). */
  readonly maxBytes?: number
  /** A thread that nobody has used for this long is forgotten, in milliseconds. Default 3,600,000 (an hour). */
  readonly idleMs?: number
}

/** A thread while a run works on its next message. */
export type OpenThread = {
  readonly id: string
  /** The messages of its earlier runs. */
  readonly history: readonly Message[]
  /** Adds what the run has produced. Without it the thread stays as it was. */
  readonly add: (messages: readonly Message[]) => void
  /** Lets the next message in. A new thread to which nothing was added is gone then. */
  readonly close: () => void
}

type Thread = { readonly owner: string; history: readonly Message[]; bytes: number; usedMs: number; busy: boolean }

/**
 * Conversations of callers who do not send their history along, for protocols in which a conversation has only a name. They
 * are kept in the memory of this process; those that were not used for the longest time are forgotten first, and one that a
 * run works on never is.
 */
export class Threads {
  readonly #limits: Required<ThreadsOptions>
  readonly #now: () => number
  /** In the order of their last use. */
  readonly #threads = new Map<string, Thread>()
  #bytes = 0

  /** `now` answers monotonic milliseconds: a clock that is set must not change how long anything counts. */
  constructor(options: ThreadsOptions = {}, now: () => number = () => performance.now()) {
    this.#limits = { maxThreads: 10_000, maxBytes: 64 * MIB, idleMs: 3_600_000, ...options }
    this.#now = now
  }

  /**
   * A thread of this owner's, for one run; a new one without an id.
   *
   * @throws ServiceError `thread_not_found`: it was forgotten, belongs to somebody else, or never was. `run_active`: a run
   *   works on it. `overloaded`: runs work on as many threads as there may be.
   */
  open(owner: string, id?: string): OpenThread {
    this.#forgetIdle()
    const known = id === undefined ? undefined : this.#threads.get(id)
    if (id !== undefined && known?.owner !== owner) throw new ServiceError('thread_not_found')
    if (known?.busy) throw new ServiceError('run_active', { message: STILL_WORKING })
    const name = id ?? `t_${randomBytes(16).toString('base64url')}`
    const thread = known ?? { owner, history: [], bytes: 0, usedMs: 0, busy: true }
    thread.busy = true
    this.#use(name, thread)
    this.#makeRoom()
    if (this.#threads.size > this.#limits.maxThreads) {
      this.#forget(name)
      throw new ServiceError('overloaded', { headers: { 'retry-after': '1' } })
    }
    return {
      id: name,
      history: thread.history,
      add: (messages) => {
        thread.history = [...thread.history, ...messages]
        const added = JSON.stringify(messages).length
        thread.bytes += added
        this.#bytes += added
      },
      close: () => {
        thread.busy = false
        if (thread.history.length === 0) return this.#forget(name)
        this.#use(name, thread)
        this.#makeRoom()
      },
    }
  }

  #use(id: string, thread: Thread): void {
    thread.usedMs = this.#now()
    this.#threads.delete(id)
    this.#threads.set(id, thread)
  }

  #forgetIdle(): void {
    const sinceMs = this.#now() - this.#limits.idleMs
    for (const [id, { usedMs, busy }] of this.#threads) {
      if (usedMs > sinceMs) return
      if (!busy) this.#forget(id)
    }
  }

  #makeRoom(): void {
    for (const [id, { busy }] of this.#threads) {
      if (this.#threads.size <= this.#limits.maxThreads && this.#bytes <= this.#limits.maxBytes) return
      if (!busy) this.#forget(id)
    }
  }

  #forget(id: string): void {
    this.#bytes -= this.#threads.get(id)?.bytes ?? 0
    this.#threads.delete(id)
  }
}

const STILL_WORKING = 'The previous message of this thread is still being worked on.'
