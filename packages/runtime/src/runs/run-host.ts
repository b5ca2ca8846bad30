import { randomUUID } from 'node:crypto'
import {
  type Agency,
  newMessagesForClient,
  runAgency,
  RunControl,
  type RunEnvironment,
  type RunInput,
  type RunSink,
} from '@bureau/framework'
import type { Message, RunEnded } from '@bureau/protocol'
import type { Logger } from '../log.ts'
import { type EventBatches, UnkeptRunLog } from '../run-log/unkept-run-log.ts'
import type { CancelOutcome, CancelRequest, LiveRun, RunRegistry } from './run-registry.ts'

export type StartRun = {
  readonly agency: Agency
  /** The agency's name in the route prefix. */
  readonly agencyName: string
  readonly input: RunInput
  readonly userId?: string | null
  /** What the run is executed with, and watched by. */
  readonly environment: RunEnvironment
  readonly log: Logger
}

/** A run whose events are read by whoever started it. */
export type FollowedRun = LiveRun & { readonly events: EventBatches }

/** Whoever waits for the end of a run reads no events. */
const NO_READER: RunSink = { emit: () => {}, ready: () => undefined }

/**
 * Executes the runs of the self-hosted server: all that a protocol needs of them. A run that nobody can resume ends with
 * its client, so what was read of it is not kept.
 */
export class RunHost {
  readonly #registry: RunRegistry

  constructor(registry: RunRegistry) {
    this.#registry = registry
  }

  /** Starts a run of which only the end counts. */
  start(start: StartRun): Promise<LiveRun> {
    return this.#execute(start, NO_READER)
  }

  /** Starts a run and gives its events to one reader, who holds the run back when it is far behind. */
  async follow(start: StartRun): Promise<FollowedRun> {
    const log = new UnkeptRunLog()
    return { ...(await this.#execute(start, log)), events: log.read() }
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
  async #execute({ agency, input, log, environment, ...start }: StartRun, sink: RunSink): Promise<LiveRun> {
    const runId = randomUUID()
    const control = new RunControl()
    const { promise: ended, resolve } = Promise.withResolvers<RunEnded>()
    const stored: Message[] = []
    const soFar = (): readonly Message[] => newMessagesForClient(stored, input.history)
    const run: LiveRun = { runId, agency: start.agencyName, userId: start.userId ?? null, control, ended, soFar }
    await this.#registry.register(run)
    const startedAt = performance.now()
    void runAgency(agency, input, {
      runId,
      sink,
      control,
      environment,
      journal: { stored: (message) => void stored.push(message), counted: () => {} },
      onFailure: (error) => log.warn({ err: error, runId }, 'run failed'),
      onToolFailure: (error, facts) => log.warn({ err: error, ...facts }, 'tool failed'),
    }).then((end) => {
      const durationMs = Math.round(performance.now() - startedAt)
      log.info({ runId, agency: start.agencyName, status: end.status, durationMs, usage: end.usage }, 'run ended')
      resolve(end)
    })
    return run
  }
}
