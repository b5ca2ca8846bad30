import type { CancelMode } from '@bureau/protocol'
import { RunStopped } from './run-errors.ts'

/** Stops one run: at once through `signal`, after the running turn, or after its next step so that another process goes on. */
export class RunControl {
  readonly #abort = new AbortController()
  readonly #stop = new AbortController()
  #stopAfterTurn = false
  #mustHandOver = false
  #isHandedOver = false

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Aborts on every way to stop: for waits that no turn should be held up by. */
  get stopSignal(): AbortSignal {
    return this.#stop.signal
  }

  /** True: the conversation with the user must not start another turn. */
  get stopAfterTurn(): boolean {
    return this.#stopAfterTurn
  }

  /** May be called again: `after_turn` can be sharpened to `immediate`, not the reverse. */
  cancel(mode: CancelMode): void {
    if (mode === 'immediate') return this.#stopNow(new RunStopped('cancelled'))
    this.#stopAfterTurn = true
    this.#stop.abort(new RunStopped('cancelled'))
  }

  /** The run is to go on in another process: it stops at its next step at which no call is half done. */
  handOver(): void {
    this.#mustHandOver = true
  }

  get mustHandOver(): boolean {
    return this.#mustHandOver
  }

  /** True: what was committed last is what the next process goes on from. */
  get isHandedOver(): boolean {
    return this.#isHandedOver
  }

  /** Stops the run at once, for another process to go on with it. */
  handedOver(): void {
    if (this.signal.aborted) return
    this.#isHandedOver = true
    this.#stopNow(new RunStopped('handed_over'))
  }

  /** `limitMs` is the time that the run had, in milliseconds. */
  timeOut(limitMs: number): void {
    this.#stopNow(new RunStopped('timeout', { cause: new Error(`the time limit is ${limitMs / 1_000} s`) }))
  }

  #stopNow(reason: RunStopped): void {
    this.#abort.abort(reason)
    this.#stop.abort(reason)
  }
}
