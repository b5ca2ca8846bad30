import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunSink } from '@bureau/framework'
import { type Message, type RunEnded, type RunError, RUN_ERRORS, ServiceError } from '@bureau/protocol'
import { FlushTimer } from '../run-log/flush-timer.ts'
import { Lingering } from '../run-log/lingering.ts'
import { WINDOW_BYTES } from '../run-log/live-run-log.ts'
import {
  type EventBatch,
  lastSeqOf,
  type LogEvent,
  type RunLogReader,
  type RunLogs,
  sizeOf,
} from '../run-log/run-log.ts'
import { COALESCE_MS, RunRecorder } from '../run-log/run-recorder.ts'
import type { OwnedRun, RunRegistry } from './run-registry.ts'

const MAX_RUNS = 10_000
const MAX_BYTES = 268_435_456

/** A run is known to other processes a moment before its log is. */
const PATIENCE_MS = 2_000
const PAUSE_MS = 50

type KeptRunsOptions = {
  readonly logs: RunLogs
  /** Tells whether a run that another process executes is still alive. */
  readonly registry: Pick<RunRegistry, 'isElsewhere'>
  /** How long the events of a run are kept after its end, in milliseconds; at least as long as `logs` keeps them. */
  readonly resumeMs: number
  /** Running and ended. Default 10,000. */
  readonly maxRuns?: number
  /** Of all their events, about. Default 268,435,456 (256 MiB). */
  readonly maxBytes?: number
}

type KeptRun = {
  /** Writes what happens in the run to its log. */
  readonly sink: RunSink
  readonly log: RunLogReader
  /** The run could not be started: its log is dropped. */
  readonly drop: () => void
}

/** What a kept run takes. */
type Share = { bytes: number }

/**
 * Runs that outlive their clients. The events of each are in a log from its start until `resumeMs` after its end, for
 * any number of readers, none of whom holds it back. When there are too many, those that ended first are dropped first;
 * a running one is never dropped.
 */
export class KeptRuns {
  readonly #options: Required<KeptRunsOptions>
  readonly #timer = new FlushTimer(COALESCE_MS)
  readonly #lingering: Lingering
  readonly #live = new Map<string, Promise<void>>()
  /** In the order in which they ended. */
  readonly #ended = new Map<string, Share>()
  #bytes = 0

  constructor(options: KeptRunsOptions) {
    this.#options = { maxRuns: MAX_RUNS, maxBytes: MAX_BYTES, ...options }
    this.#lingering = new Lingering(options.resumeMs)
  }

  /**
   * Begins the log of a run that this process is about to execute.
   *
   * @param soFar What the run would have produced if it ended now.
   * @throws ServiceError `overloaded`: the runs that are kept take all the room there is, and none of them has ended.
   */
  begin(run: OwnedRun, soFar: () => readonly Message[]): KeptRun {
    this.#makeRoom()
    if (!this.#hasRoom()) throw new ServiceError('overloaded', { message: FULL, headers: { 'retry-after': '1' } })
    const key = keyOf(run)
    const share: Share = { bytes: 0 }
    const { promise: over, resolve } = Promise.withResolvers<void>()
    // Once the run has ended, `soFar` is dropped: it holds on to what the run was made of.
    let produced = soFar
    const log = this.#options.logs.create({
      runId: key,
      snapshot: () => recorder.snapshot(produced()),
    })
    const recorder = new RunRecorder({ log, timer: this.#timer, maxOutputBytes: Infinity, onOutputLimit: () => {} })
    this.#live.set(key, over)
    const end = (): void => {
      this.#live.delete(key)
      this.#ended.set(key, share)
      this.#lingering.add(() => this.#forget(key))
      this.#makeRoom()
      resolve()
    }
    let failure: LogEvent | undefined
    const emit: RunSink['emit'] = (event) => {
      recorder.emit(event)
      this.#count(share, Math.min(recorder.bytes, WINDOW_BYTES))
      if (event.type === 'run.error') failure = event
      if (event.type !== 'run.ended') return
      produced = () => event.new_messages
      this.#count(share, share.bytes + sizeOf(event))
      // Nothing of it is stored elsewhere, so nothing can fail.
      void log.seal(failure ? [failure, event] : [event]).then(() => {
        log.release()
        end()
      })
    }
    const drop = (): void => {
      end()
      this.#forget(key)
    }
    return { sink: { emit, ready: () => undefined }, log, drop }
  }

  /**
   * The log of a kept run, wherever it is executed; undefined when no run of this agency and user is kept under this id.
   *
   * A run whose process has died ends as failed with `runner_lost`, for those who read it elsewhere.
   *
   * @throws ServiceError `stream_unavailable`: it cannot be known.
   */
  async find(run: OwnedRun): Promise<RunLogReader | undefined> {
    for (const until = performance.now() + PATIENCE_MS; ;) {
      const log = await this.#options.logs.find(keyOf(run))
      if (log) return this.#endedWithProcess(run, log)
      const isElsewhere = await this.#options.registry.isElsewhere(run).catch((cause: unknown) => {
        throw new ServiceError('stream_unavailable', { cause })
      })
      if (!isElsewhere || performance.now() > until) return undefined
      await sleep(PAUSE_MS)
    }
  }

  /** Sends away who reads here what other processes execute, and resolves when the runs of this one have ended. */
  async drain(): Promise<void> {
    this.#options.logs.sendReadersAway()
    while (this.#live.size > 0) await Promise.all(this.#live.values())
  }

  #endedWithProcess(run: OwnedRun, log: RunLogReader): RunLogReader {
    return {
      head: log.head,
      ended: log.ended,
      read: (after, signal) => this.#readToEnd(run, log.read(after, signal), after),
    }
  }

  async *#readToEnd(
    run: OwnedRun,
    batches: AsyncIterable<EventBatch>,
    after: number,
  ): AsyncGenerator<EventBatch, void> {
    let position = after
    let isMissing = false
    for await (const batch of batches) {
      if (batch.events.length > 0) {
        yield batch
        position = lastSeqOf(batch)
        continue
      }
      // Whoever cannot be asked is taken to be alive. A run that has just ended is looked at again: its end is on its way.
      const isAlive = await this.#options.registry.isElsewhere(run).catch(() => true)
      if (!isAlive && isMissing) return yield { first: position + 1, events: lostEnding(run.runId) }
      isMissing = !isAlive
    }
  }

  #hasRoom(): boolean {
    const { maxRuns, maxBytes } = this.#options
    return this.#live.size + this.#ended.size < maxRuns && this.#bytes < maxBytes
  }

  #makeRoom(): void {
    for (const key of this.#ended.keys()) {
      if (this.#hasRoom()) return
      this.#forget(key)
    }
  }

  #forget(key: string): void {
    const share = this.#ended.get(key)
    if (!share) return
    this.#ended.delete(key)
    this.#bytes -= share.bytes
    this.#options.logs.forget(key)
  }

  #count(share: Share, bytes: number): void {
    this.#bytes += bytes - share.bytes
    share.bytes = bytes
  }
}

const FULL = 'The server keeps as many runs as it can. Try again shortly, or without on_disconnect.'

/** A log is found under its owner's name only, so that nobody else's is found. */
function keyOf({ runId, agency, userId }: OwnedRun): string {
  return hash('sha256', JSON.stringify([agency, userId, runId]), 'base64url')
}

function lostEnding(runId: string): LogEvent[] {
  const error: RunError = { code: 'runner_lost', message: RUN_ERRORS.runner_lost.message }
  const nothing = { new_messages: [], usage: null, usage_by_model: [], output: null }
  const ended: RunEnded = { type: 'run.ended', run_id: runId, status: 'failed', ...nothing, error }
  return [{ type: 'run.error', source: null, error }, ended, { type: 'log.ended' }]
}
