import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Agency,
  type ApprovalOptions,
  loggedFailure,
  newMessagesForClient,
  type OnToolFailure,
  runAgency,
  RunControl,
  type RunEnvironment,
  type RunInput,
  type RunResume,
  type RunSink,
} from '@bureau/framework'
import { type Message, type RunEnded, ServiceError } from '@bureau/protocol'
import type { Logger } from '../log.ts'
import { type EventBatches, UnkeptRunLog } from '../run-log/unkept-run-log.ts'
import type { RunLogReader } from '../run-log/run-log.ts'
import type { KeptRuns } from './kept-runs.ts'
import type { NamedRequest, RequestIds, RequestedRun } from './request-ids.ts'
import type { LiveRun, RunRegistry } from './run-registry.ts'

/** The run of a request is known a moment before it can be followed. */
const PATIENCE_MS = 2_000
const PAUSE_MS = 50

export type StartRun = {
  /** Default: a new one. */
  readonly runId?: string
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

/** The run of a request; `resumed`: it was begun by the same request before. */
export type RequestRun = Pick<LoggedRun, 'runId' | 'log'> & { readonly resumed: boolean }

/** Whoever waits for the end of a run reads no events. */
const NO_READER: RunSink = { emit: () => {}, ready: () => undefined }

/**
 * Executes the runs of the self-hosted server. A run ends with its client, and what was read of it is not kept, unless it
 * was started by `keep`.
 */
export class RunHost {
  readonly #registry: RunRegistry
  readonly #kept: KeptRuns
  readonly #requests: RequestIds

  constructor(registry: RunRegistry, kept: KeptRuns, requests: RequestIds) {
    this.#registry = registry
    this.#kept = kept
    this.#requests = requests
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
   * Starts a run that goes on when its client leaves: its events can be read, again and by many, from its log.
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

  /**
   * The run of a request that may be sent more than once, on any process: `begin` is called for the first one only, and
   * keeps a run with this id. `asked` is a digest of what the request asks.
   *
   * @throws ServiceError `request_id_reused`, `request_ended`, `stream_unavailable`; whatever `begin` throws.
   */
  async keepOnce(
    { asked, ...request }: NamedRequest & Pick<RequestedRun, 'asked'>,
    begin: (runId: string) => Promise<LoggedRun>,
  ): Promise<RequestRun> {
    const own = { runId: randomUUID(), asked }
    for (const until = performance.now() + PATIENCE_MS; ;) {
      // Once more each time, because the run of the first request may have been refused.
      const first = await this.#requests.claim(request, own).catch(unavailable)
      if (first.asked !== asked) throw new ServiceError('request_id_reused')
      if (first.runId === own.runId)
        return { ...(await this.#beginFor(request, () => begin(own.runId))), resumed: false }
      const log = await this.#kept.find({ ...request, runId: first.runId })
      if (log) return { runId: first.runId, log, resumed: true }
      if (performance.now() > until) throw new ServiceError('request_ended')
      await sleep(PAUSE_MS)
    }
  }

  /**
   * The id of the run that answers a request; undefined when none of this caller and agency is kept.
   *
   * @throws ServiceError `stream_unavailable`: it cannot be known.
   */
  async findRequest(request: NamedRequest): Promise<string | undefined> {
    const known = await this.#requests.find(request).catch(unavailable)
    const log = known && (await this.#kept.find({ ...request, runId: known.runId }))
    return log && known.runId
  }

  async #beginFor(request: NamedRequest, begin: () => Promise<LoggedRun>): Promise<LoggedRun> {
    try {
      return await begin()
    } catch (error) {
      // What cannot be released now is refused until it expires: better than two runs.
      await this.#requests.release(request).catch(() => {})
      throw error
    }
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
        log.warn({ ...loggedFailure(error), runId }, 'run failed')
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

function unavailable(cause: unknown): never {
  throw new ServiceError('stream_unavailable', { cause })
}

function newRun({ runId = randomUUID(), agencyName, userId = null, input }: StartRun): NewRun {
  const { promise: ended, resolve } = Promise.withResolvers<RunEnded>()
  const stored: Message[] = []
  const soFar = (): readonly Message[] => newMessagesForClient(stored, input.history)
  return { runId, agency: agencyName, userId, control: new RunControl(), ended, soFar, stored, resolve }
}
