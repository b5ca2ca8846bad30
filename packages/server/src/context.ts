import type { RunEnvironment } from '@bureau/framework'
import type { KeptRuns, Logger, RunHost, RunRegistry, SessionObserver } from '@bureau/runtime'
import type { MetadataOptions } from './agencies/agency-metadata.ts'
import type { Approvals } from './approvals/approvals.ts'
import type { FileSettings } from './agencies/read-files.ts'
import type { SignIns } from './oauth/open-sign-ins.ts'
import type { RequestRuns } from './request-runs.ts'

/** What the routes of a server share. */
export type ServerContext = {
  readonly environment: RunEnvironment
  /**
   * Takes a place among the runs for something that is none. Returns what gives it back.
   *
   * @throws ServiceError `overloaded`
   */
  readonly takeSlot: () => () => void
  /** Watches a voice session of the agency of this route name; undefined when nobody wants to know. */
  readonly observeSession: (agency: string) => SessionObserver | undefined
  /** Starts the runs of requests. */
  readonly runs: RequestRuns
  readonly host: RunHost
  /** Finds runs that outlive their clients. */
  readonly kept: KeptRuns
  /** Stops runs. */
  readonly registry: RunRegistry
  /** False: every run ends with its client. */
  readonly keepsRuns: boolean
  readonly approvals: Approvals
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
