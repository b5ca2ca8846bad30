import { RunControl } from '@bureau/framework'
import type { CancelMode, RunErrorCode } from '@bureau/protocol'
import { type LogResume, type RunLog, type RunRecorder, StreamBroken } from '@bureau/runtime'
import type { TakenRun } from '../recover/take-up-run.ts'
import type { RunProgress } from './run-progress.ts'
import type { ShownItem } from './shown-items.ts'

/** A run that was reserved for this process. */
export type ReservedRun = Omit<TakenRun, 'before'> & {
  /** The `traceparent` header of the request that began it. */
  readonly traceParent?: string | undefined
  /** Set when another process has worked on it before. */
  readonly takenUp?: TakenUp | undefined
}

/** What is known of a run that another process has given up. */
type TakenUp = Omit<NonNullable<TakenRun['before']>, 'lastEventSeq'> & {
  readonly log: LogResume
  /** Items of which readers have seen something. */
  readonly shown: readonly ShownItem[]
}

/** How long a run may take to its next step when its process stops. */
export const HAND_OVER_MS = 5_000

/** How long a run that is to be cancelled without its clients waits for them to come back. */
const RECONNECT_MS = 10_000

/** A run that this process executes. */
export class ActiveRun {
  readonly reserved: ReservedRun
  readonly control = new RunControl()
  readonly log: RunLog
  readonly recorder: RunRecorder
  readonly progress: RunProgress
  /** Resolves when the run has ended, or is no longer this process's business; never rejects. */
  readonly ended: Promise<void>
  #end: () => void = () => {}
  #stoppedBy: RunErrorCode | undefined
  readonly #fencing = new AbortController()
  #followers = 0
  #abandonment: NodeJS.Timeout | undefined

  constructor(
    reserved: ReservedRun,
    parts: (run: ActiveRun) => { log: RunLog; recorder: RunRecorder; progress: RunProgress },
  ) {
    this.reserved = reserved
    ;({ log: this.log, recorder: this.recorder, progress: this.progress } = parts(this))
    this.ended = new Promise((resolve) => (this.#end = resolve))
    // Its clients have lost their streams with the process before.
    if (reserved.takenUp && !reserved.takenUp.waited) this.#left()
  }

  /** Why it is to fail, when this process stopped it for a reason of its own. */
  get stoppedBy(): RunErrorCode | undefined {
    return this.#stoppedBy
  }

  /** True: somebody else decides about it now. Nothing may be written or shown. */
  get fenced(): boolean {
    return this.#fencing.signal.aborted
  }

  /** Aborts when somebody else decides about it. */
  get fencing(): AbortSignal {
    return this.#fencing.signal
  }

  cancel(mode: CancelMode): void {
    this.control.cancel(mode)
  }

  /** Stops the run at once; it fails with this code. */
  fail(code: RunErrorCode): void {
    this.#stoppedBy ??= code
    this.control.cancel('immediate')
  }

  /** The run goes on in another process from its next step on; an integration may want it to fail instead. */
  handOver(): void {
    if (this.reserved.settings.whenRunnerLost === 'fail') this.fail('server_shutdown')
    else this.control.handOver()
  }

  /** Stops the run at once and breaks its streams off, without an end. */
  fence(): void {
    this.#fencing.abort()
    this.control.cancel('immediate')
    this.log.abandon(new StreamBroken('run_taken_away'))
  }

  /** Counts a client that reads the stream. Call what it returns when the client has gone. */
  follow(): () => void {
    this.#followers++
    clearTimeout(this.#abandonment)
    let left = false
    return () => {
      if (left) return
      left = true
      if (--this.#followers === 0) this.#left()
    }
  }

  /** Told once, by who executes it. */
  close(): void {
    clearTimeout(this.#abandonment)
    this.#end()
  }

  #left(): void {
    if (this.reserved.settings.onDisconnect !== 'cancel') return
    this.#abandonment = setTimeout(() => this.cancel('immediate'), RECONNECT_MS)
  }
}
