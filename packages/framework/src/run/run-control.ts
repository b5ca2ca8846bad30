import type { CancelMode } from '@bureau/protocol'
import { RunStopped } from './run-errors.ts'

/** Stops one run: at once through `signal`, or after the running turn. */
export class RunControl {
  readonly #abort = new AbortController()
  readonly #stop = new AbortController()
  #stopAfterTurn = false

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
    if (mode === 'after_turn') this.#stopAfterTurn = true
    else this.#abort.abort(new RunStopped('cancelled'))
    this.#stop.abort(new RunStopped('cancelled'))
  }

  timeOut(): void {
    this.#abort.abort(new RunStopped('timeout'))
    this.#stop.abort(new RunStopped('timeout'))
  }
}
