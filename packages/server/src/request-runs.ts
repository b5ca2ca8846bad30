import type { RunEnvironment, RunObserver } from '@bureau/framework'
import type { FollowedRun, LiveRun, LoggedRun, Logger, RunHost, StartRun } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import type { RecentRuns } from './console/recent-runs.ts'
import type { RunSlots } from './run-slots.ts'

/** A run as a request asks for it. The rest is the server's, or comes with the request. */
export type StartAsked = Omit<StartRun, 'log' | 'environment'>

type RequestRunsOptions = {
  readonly host: RunHost
  readonly slots: RunSlots
  /** What the runs of a request are executed with: its trace is theirs. */
  readonly environmentOf: (request: FastifyRequest, recorder?: RunObserver) => RunEnvironment
  /** Undefined: no run is recorded. */
  readonly recent: RecentRuns | undefined
}

/** The runs of a server's requests: each is part of its request's trace and log, and takes a place while it lasts. */
export class RequestRuns {
  readonly #options: RequestRunsOptions

  constructor(options: RequestRunsOptions) {
    this.#options = options
  }

  /**
   * Starts a run of which only the end counts.
   *
   * @throws ServiceError `overloaded`
   */
  start(request: FastifyRequest, asked: StartAsked): Promise<LiveRun> {
    const { host, slots } = this.#options
    return slots.start(() => host.start(this.#given(request, asked)))
  }

  /**
   * Starts a run whose events this request reads.
   *
   * @throws ServiceError `overloaded`
   */
  follow(request: FastifyRequest, asked: StartAsked): Promise<FollowedRun> {
    const { host, slots } = this.#options
    return slots.start(() => host.follow(this.#given(request, asked)))
  }

  /**
   * Starts a run that goes on when the client of this request leaves.
   *
   * @throws ServiceError `overloaded`
   */
  keep(request: FastifyRequest, asked: StartAsked): Promise<LoggedRun> {
    const { host, slots } = this.#options
    return slots.start(() => host.keep(this.#given(request, asked)))
  }

  #given(request: FastifyRequest, asked: StartAsked): StartRun {
    const { environmentOf, recent } = this.#options
    const { observer, ...failures } = recent?.record(asked) ?? {}
    return { ...asked, ...failures, environment: environmentOf(request, observer), log: request.log as Logger }
  }
}
