import type { RunSink } from '@bureau/framework'
import type { Message, RunEvent, RunEventOf } from '@bureau/protocol'
import type { FlushTimer } from './flush-timer.ts'
import { type RunLog, type RunSnapshot, sizeOf } from './run-log.ts'
import { TextDelta } from './text-delta.ts'

/** Longest time that text waits for more of it. */
export const COALESCE_MS = 50

/** A run may log this many bytes of events, its last ones not counted. */
const MAX_OUTPUT_BYTES = 8 * 1024 * 1024

type RunRecorderOptions = {
  readonly log: RunLog
  /** One for all runs of the process, with an interval of `COALESCE_MS`. */
  readonly timer: FlushTimer
  /** Called once, when the run has logged all that it may: it is to fail with `output_limit_exceeded`. */
  readonly onOutputLimit: () => void
  /** Default 8 MiB. */
  readonly maxOutputBytes?: number
}

/**
 * Writes what happens in one run to its log. Its start is known to whoever reads the log, and how it fails and ends is
 * for the transaction to say that ends it, so these events are left out.
 *
 * Text that follows on text of the same part within `COALESCE_MS` joins it in one event; the first piece goes out at
 * once. Every other event is written at once, after the text that came before it, so nothing changes its order.
 */
export class RunRecorder implements RunSink {
  readonly #options: RunRecorderOptions
  /** The part whose text is being gathered, until something else happens or a tick finds nothing new. */
  #key: string | undefined
  #gathered: TextDelta | undefined
  #ticking = false
  #bytes = 0
  #full = false
  /** The text of the message to the user that was written last. */
  #partial: RunSnapshot['partial']

  constructor(options: RunRecorderOptions) {
    this.#options = options
  }

  /** Of all events that were logged, about. */
  get bytes(): number {
    return this.#bytes
  }

  /** What the run has come to: these messages, and the one to the user that is being written, if it is none of them. */
  snapshot(new_messages: readonly Message[]): RunSnapshot {
    const partial = this.#partial
    if (!partial || new_messages.some(({ id }) => id === partial.item_id)) return { new_messages }
    return { new_messages, partial }
  }

  emit(event: RunEvent): void {
    const delta = event.type === 'model.event' ? TextDelta.from(event) : undefined
    if (delta) {
      this.#gather(delta)
      return
    }
    this.flush()
    const recorded = recordable(event)
    if (recorded) this.#write(recorded)
  }

  /** A slow reader never holds back a run, and what a run may log fits into memory. */
  ready(): undefined {
    return undefined
  }

  /** Writes what was gathered. To be called before the log is sealed. */
  flush(): void {
    const rest = this.#gathered
    this.#gathered = undefined
    this.#key = undefined
    if (rest) this.#writeText(rest)
  }

  #gather(delta: TextDelta): void {
    if (delta.key !== this.#key) this.flush()
    const isFirst = this.#key === undefined
    this.#key = delta.key
    if (this.#gathered) this.#gathered.add(delta)
    else this.#gathered = delta
    if (isFirst) this.#writeGathered()
    if (this.#ticking) return
    this.#ticking = true
    this.#options.timer.add(() => this.#tick())
  }

  /** True: more may come within the next interval. */
  #tick(): boolean {
    this.#ticking = this.#gathered !== undefined
    if (this.#gathered) this.#writeGathered()
    else this.#key = undefined
    return this.#ticking
  }

  /** Half a surrogate pair waits for its other half. */
  #writeGathered(): void {
    const delta = this.#gathered
    this.#gathered = delta?.splitHalfPair()
    if (delta && delta.text !== '') this.#writeText(delta)
  }

  #writeText(delta: TextDelta): void {
    const { event, text } = delta
    this.#write(event)
    const { item_id, source } = event
    if (item_id === undefined || source.callerAgent !== null) return
    const before = this.#partial?.item_id === item_id ? this.#partial.text : ''
    this.#partial = { item_id, text: before + text }
  }

  #write(event: RunEvent): void {
    if (this.#full) return
    const { log, maxOutputBytes = MAX_OUTPUT_BYTES, onOutputLimit } = this.#options
    this.#bytes += sizeOf(event)
    this.#full = this.#bytes > maxOutputBytes
    if (this.#full) onOutputLimit()
    else log.append(event)
  }
}

/** The event as it is to be kept; undefined when it is left out, as an agency's own event that is not JSON. */
function recordable(event: RunEvent): RunEvent | undefined {
  switch (event.type) {
    case 'run.started':
    case 'run.error':
    case 'run.ended':
      return undefined
    case 'custom':
      return snapshotOf(event)
    default:
      return event
  }
}

/** Tools make these, and may change or even break them later. */
function snapshotOf(event: RunEventOf<'custom'>): RunEvent | undefined {
  try {
    return { ...event, data: JSON.parse(JSON.stringify(event.data)) as typeof event.data }
  } catch {
    return undefined
  }
}
