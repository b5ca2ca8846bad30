import { RunControl } from '@bureau/framework'
import type { CancelMode, RunErrorCode } from '@bureau/protocol'
import { type RunLog, type RunRecorder, StreamBroken } from '@bureau/runtime'
import type { RunSettings } from '../../db/column-types.ts'
import type { RunProgress } from './run-progress.ts'

/** A run that was reserved for this process. */
export type ReservedRun = {
  readonly ownerId: string
  readonly runId: string
  /** The start of this process in which it was reserved: part of every write. */
  readonly bootId: string
  readonly chatId: string
  readonly agent: string
  readonly settings: RunSettings
}

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
  #fenced = false
  #followers = 0
  #abandonment: NodeJS.Timeout | undefined

  constructor(
    reserved: ReservedRun,
    parts: (run: ActiveRun) => { log: RunLog; recorder: RunRecorder; progress: RunProgress },
  ) {
    this.reserved = reserved
    ;({ log: this.log, recorder: this.recorder, progress: this.progress } = parts(this))
    this.ended = new Promise((resolve) => (this.#end = resolve))
  }

  /** Why it is to fail, when this process stopped it for a reason of its own. */
  get stoppedBy(): RunErrorCode | undefined {
    return this.#stoppedBy
  }

  /** True: somebody else decides about it now. Nothing may be written or shown. */
  get fenced(): boolean {
    return this.#fenced
  }

  cancel(mode: CancelMode): void {
    this.control.cancel(mode)
  }

  /** Stops the run at once; it fails with this code. */
  fail(code: RunErrorCode): void {
    this.#stoppedBy ??= code
    this.control.cancel('immediate')
  }

  /** Stops the run at once and breaks its streams off, without an end. */
  fence(): void {
    this.#fenced = true
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
