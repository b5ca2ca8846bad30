import type { FastifyRequest } from 'fastify'
import type { RunEnvironment } from '@bureau/framework'
import type { LiveRun, Logger, RunRegistry, StartRun } from '@bureau/runtime'
import type { MetadataOptions } from './agencies/agency-metadata.ts'
import type { FileSettings } from './agencies/read-files.ts'
import type { SessionObserver } from './observability/count-sessions.ts'
import type { SignIns } from './oauth/open-sign-ins.ts'

/** What the routes of a server share. */
export type ServerContext = {
  readonly environment: RunEnvironment
  /**
   * Starts a run as part of this request, which has its trace and its log.
   *
   * @throws ServiceError `overloaded`
   */
  readonly startRun: (request: FastifyRequest, start: Omit<StartRun, 'log'>) => Promise<LiveRun>
  /**
   * Takes a place among the runs for something that is none. Returns what gives it back.
   *
   * @throws ServiceError `overloaded`
   */
  readonly takeSlot: () => () => void
  /** Watches a voice session of the agency of this route name; undefined when nobody wants to know. */
  readonly observeSession: (agency: string) => SessionObserver | undefined
  readonly runs: RunRegistry
  /** Undefined when no agency needs to know its users. */
  readonly signIns: SignIns | undefined
  readonly log: Logger
  readonly metadataOptions: MetadataOptions
  /** False: AG-UI clients get no reasoning. */
  readonly aguiReasoning: boolean
  /** Vendors whose models requests may choose on the operator's keys. */
  readonly callerVendors: ReadonlySet<string>
  /** How requests may attach files; each request's own log is used. */
  readonly files: Omit<FileSettings, 'log'>
}
