import { randomUUID } from 'node:crypto'
import {
  type Agency,
  type ApprovalOptions,
  newMessagesForClient,
  type OnToolFailure,
  runAgency,
  RunControl,
  type RunEnvironment,
  type RunInput,
  type RunResume,
  type RunSink,
} from '@bureau/framework'
import type { Message, RunEnded } from '@bureau/protocol'
import type { Logger } from '../log.ts'
import { type EventBatches, UnkeptRunLog } from '../run-log/unkept-run-log.ts'
import type { RunLogReader } from '../run-log/run-log.ts'
import type { KeptRuns } from './kept-runs.ts'
import type { CancelOutcome, CancelRequest, LiveRun, OwnedRun, RunRegistry } from './run-registry.ts'

export type StartRun = {
  readonly agency: Agency
  /** The agency's name in the route prefix. */
  readonly agencyName: string
  readonly input: RunInput
  readonly userId?: string | null
  /** How calls are held that need an approval. False: the protocol has no way to ask. */
  readonly approvals: ApprovalOptions | false
  /** Goes on with a run that has waited. */
  readonly resume?: RunResume
  /** What the run is executed with, and watched by. */
  readonly environment: RunEnvironment
  readonly log: Logger
  /** Called for a failure with its cause, besides the log. */
  readonly onFailure?: (error: unknown) => void
  readonly onToolFailure?: OnToolFailure
}

/** A run whose events are read by whoever started it. */
export type FollowedRun = LiveRun & { readonly events: EventBatches }

/** A run whose events are kept in a log. */
export type LoggedRun = LiveRun & { readonly log: RunLogReader }

/** Whoever waits for the end of a run reads no events. */
const NO_READER: RunSink = { emit: () => {}, ready: () => undefined }

/**
 * Executes the runs of the self-hosted server: all that a protocol needs of them. A run ends with its client, and what was
 * read of it is not kept, unless it was started by `keep`.
 */
export class RunHost {
  readonly #registry: RunRegistry
  readonly #kept: KeptRuns

  constructor(registry: RunRegistry, kept: KeptRuns) {
    this.#registry = registry
    this.#kept = kept
  }

  /** Starts a run of which only the end counts. */
  start(start: StartRun): Promise<LiveRun> {
    return this.#execute(newRun(start), start, NO_READER)
  }

  /** Starts a run and gives its events to one reader, who holds the run back when it is far behind. */
  async follow(start: StartRun): Promise<FollowedRun> {
    const log = new UnkeptRunLog()
    return { ...(await this.#execute(newRun(start), start, log)), events: log.read() }
  }

  /**
   * Starts a run that goes on when its client leaves: its events can be read, again and by many, by whoever `find`s it.
   *
   * @throws ServiceError `overloaded`: too many runs are kept.
   */
  async keep(start: StartRun): Promise<LoggedRun> {
    const run = newRun(start)
    const { sink, log, drop } = this.#kept.begin(run, run.soFar)
    try {
      return { ...(await this.#execute(run, start, sink)), log }
    } catch (error) {
      drop()
      throw error
    }
  }

  /** As in `KeptRuns`. */
  find(run: OwnedRun): Promise<RunLogReader | undefined> {
    return this.#kept.find(run)
  }

  /** As in `KeptRuns`. */
  drain(): Promise<void> {
    return this.#kept.drain()
  }

  /** As in `RunRegistry`. */
  cancel(request: CancelRequest): Promise<CancelOutcome | undefined> {
    return this.#registry.cancel(request)
  }

  /** As in `RunRegistry`. */
  abandon(run: LiveRun): void {
    this.#registry.abandon(run)
  }

  /** Registers a run and executes it in the background. The registry knows the run when this returns. */
  async #execute({ resolve, stored, ...run }: NewRun, start: StartRun, sink: RunSink): Promise<LiveRun> {
    const { agency, input, log, environment, approvals, resume } = start
    const { runId, control } = run
    await this.#registry.register(run)
    const startedAt = performance.now()
    void runAgency(agency, input, {
      runId,
      sink,
      control,
      environment,
      approvals,
      resume,
      journal: { stored: (message) => void stored.push(message), counted: () => {}, commit: () => undefined },
      onFailure: (error) => {
        log.warn({ err: error, runId }, 'run failed')
        start.onFailure?.(error)
      },
      onToolFailure: (error, facts) => {
        log.warn({ err: error, ...facts }, 'tool failed')
        start.onToolFailure?.(error, facts)
      },
    }).then((end) => {
      const durationMs = Math.round(performance.now() - startedAt)
      log.info({ runId, agency: start.agencyName, status: end.status, durationMs, usage: end.usage }, 'run ended')
      resolve(end)
    })
    return run
  }
}

type NewRun = LiveRun & {
  readonly soFar: () => readonly Message[]
  readonly stored: Message[]
  readonly resolve: (ended: RunEnded) => void
}

function newRun({ agencyName, userId = null, input }: StartRun): NewRun {
  const { promise: ended, resolve } = Promise.withResolvers<RunEnded>()
  const stored: Message[] = []
  const soFar = (): readonly Message[] => newMessagesForClient(stored, input.history)
  return { runId: randomUUID(), agency: agencyName, userId, control: new RunControl(), ended, soFar, stored, resolve }
}
