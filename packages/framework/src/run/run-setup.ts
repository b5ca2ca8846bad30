import type { RunEvent } from '@bureau/protocol'
import type { McpConnections } from '../mcp/connections.ts'
import type { OAuthAccess } from '../mcp/oauth-access.ts'
import type { ModelAccess } from '../models/resolve-model.ts'
import type { RunObserver } from '../trace/trace-step.ts'
import type { RunControl } from './run-control.ts'
import type { RunJournal, RunResume } from './run-journal.ts'

/** Where the events of a run go. */
export interface RunSink {
  /** Never waits and never throws. */
  emit(event: RunEvent): void
  /** A promise while the reader is too far behind; nothing more is read from the model until it resolves. */
  ready(): Promise<void> | undefined
}

/** Called with the error of a failed tool, for the log: the run goes on, and neither client nor model gets its text. */
export type OnToolFailure = (
  error: unknown,
  facts: { readonly runId: string; readonly agent: string; readonly tool: string },
) => void

/** What a process offers to all its runs. */
export type RunEnvironment = {
  readonly models: ModelAccess
  readonly mcp: McpConnections
  /** How users sign in to protected tool servers. Absent: nobody can be asked, and such servers stay closed. */
  readonly oauth?: OAuthAccess
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Watches every run: for traces, metrics and logs. */
  readonly observer?: RunObserver | undefined
}

/** What a run is executed with. */
export type RunSetup = {
  readonly runId: string
  readonly sink: RunSink
  readonly control: RunControl
  readonly environment: RunEnvironment
  readonly journal?: RunJournal
  /**
   * Goes on with a run that another process has begun, under the same id and with the same input. With another id it is a run of its
   * own: it goes on with what the other one has left to a person, and then with the message of its request.
   */
  readonly resume?: RunResume | undefined
  /** Turns of one agent's conversation. Default: the agency's. */
  readonly maxTurns?: number
  readonly onToolFailure?: OnToolFailure | undefined
}
