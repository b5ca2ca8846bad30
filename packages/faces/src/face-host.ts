import type { Agency, RunInput } from '@bureau/framework'
import type { RunEnded } from '@bureau/protocol'
import type { EventBatch, LogEvent } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'

/** An agency as the callers of a server know it. */
export type FaceAgency = {
  /** Names it in this server: the route name of the self-hosted server, the id of an integration of the platform. */
  readonly name: string
  readonly agency: Agency
  /** The agent that is addressed when the caller names none. Default: the first entry point. */
  readonly defaultAgent?: string
  /** Seconds since the epoch. */
  readonly createdAt: number
  /** True: its users may have to sign in while a run works, which takes a stream. */
  readonly signsIn: boolean
}

/** What a person has decided about a call that waits for that. */
export type FaceDecision = {
  /** Absent: the token says. */
  readonly callId?: string
  /** Of the request for the approval; only where the server keeps no runs. */
  readonly token?: string
  readonly approve: boolean
  /** Why it is refused: the model reads it. */
  readonly reason?: string
  /** In place of the model's. */
  readonly arguments?: unknown
}

/** A run as a face asks for it. */
export type AskedRun = {
  readonly served: FaceAgency
  readonly input: RunInput
  /** True: the run goes on when its client leaves, and is found again until a while after its end. */
  readonly kept: boolean
  /** Whom the caller says that it asks for. A server that trusts its callers charges them; no other may rely on it. */
  readonly onBehalfOf?: string
  /** The run whose conversation this one goes on with, on a server that keeps them; `history` is empty then. */
  readonly continues?: string
  /** The conversation that this run goes on with, by the id that the server has given it; `history` is empty then. */
  readonly conversation?: string
  /**
   * The caller's own name of the conversation, which begins when it is first used, on a server that keeps conversations. Of the
   * outputs in the message those count there whose calls wait for them.
   */
  readonly thread?: string
  /**
   * With decisions, a run that waits goes on: on a server that keeps runs it is the one that `continues` names, which takes no
   * message; on others, a new one with the history of the request. Absent: the protocol has no way to bring decisions, so that a
   * run fails that nobody else can go on with.
   */
  readonly decisions?: readonly FaceDecision[]
  /** True: all calls that wait are decided about at once, and a decision about a call that has its output counts for nothing. */
  readonly decidesAll?: true
  /** What of a run the clients of the protocol have in their histories, where the server keeps no runs. Default: `messages`. */
  readonly keptByClient?: 'conversation' | 'messages'
}

/** A run that a face follows. */
export type FaceRun = {
  readonly runId: string
  /** Its conversation, on a server that keeps conversations. */
  readonly conversation?: string
  /** What was asked for begins behind this number. Above 0 for a run that goes on. */
  readonly after: number
  /**
   * The events after number `after`, as in `RunLogReader`. A run that is not kept has one reader, from the start.
   *
   * @throws StreamBroken. @throws The reason of `signal` when it aborts.
   */
  readonly read: (after: number, signal: AbortSignal) => AsyncIterable<EventBatch>
  /** Where a person decides about calls of the run that wait for that; absent where the run ends with them. */
  readonly approvalsUrl?: string
  /** Whether the caller may decide about them, by `AskedRun.decisions`. */
  readonly mayDecide: boolean
  /** The number of its newest event when it was begun or found. */
  readonly head: number
  /** Whether it had ended then, or waited: its events come to an end. */
  readonly isAtRest: boolean
  /** When it ended, in seconds since the epoch, where that is known. */
  readonly endedAt?: number
  /** The client has left: what is not kept is stopped. */
  readonly leave: () => void
}

/** Names a run of the caller's. */
export type FaceRunKey = { readonly served: FaceAgency; readonly runId: string }

/**
 * What a face needs of a server to be served there. Who is calling, what that caller may use and which limits there are is
 * the server's knowledge: each method reads it from the request, which was authenticated before.
 */
export interface FaceHost {
  /** The agencies that the caller may use, in the order in which they are listed. */
  agencies(request: FastifyRequest): Promise<readonly FaceAgency[]>

  /** The agency of this name; undefined when there is none that the caller may use. */
  agency(request: FastifyRequest, name: string): Promise<FaceAgency | undefined>

  /**
   * Who is calling, to whom conversations with this agency belong; null where the server does not know.
   *
   * @throws ServiceError `user_not_resolved`
   */
  callerOf(request: FastifyRequest, served: FaceAgency): Promise<string | null>

  /**
   * Starts a run that belongs to the caller, or goes on with one that waits. It takes a place among the server's runs until it has
   * ended.
   *
   * @throws ServiceError `overloaded`, `user_not_resolved`, `thread_not_found` the caller has no such conversation, on the platform what admission refuses, and for decisions that cannot
   *   be used `invalid_request`, `approval_missing`, `approval_not_found`, `approval_decided`, `approval_expired`, `run_not_waiting`.
   */
  begin(request: FastifyRequest, asked: AskedRun): Promise<FaceRun>

  /**
   * A kept run of the caller's, wherever it is executed; undefined when there is none of this id.
   *
   * @throws ServiceError `stream_unavailable`
   */
  find(request: FastifyRequest, key: FaceRunKey): Promise<FaceRun | undefined>

  /**
   * Stops a run of the caller's at once and waits for its end, up to a minute.
   *
   * @returns False: there is no such run, or it has ended.
   */
  cancel(request: FastifyRequest, key: FaceRunKey): Promise<boolean>
}

/**
 * Reads what was asked for to its end.
 *
 * @param watch - Gets each event, with its number.
 * @throws Error the log breaks off before the end. @throws The reason of `signal` when it aborts.
 */
export async function endOf(
  run: FaceRun,
  signal: AbortSignal,
  watch: (event: LogEvent, seq: number) => unknown = () => {},
): Promise<RunEnded> {
  for await (const { first, events } of run.read(run.after, signal)) {
    signal.throwIfAborted()
    let seq = first
    for (const event of events) {
      watch(event, seq++)
      if (event.type === 'run.ended') return event
    }
  }
  signal.throwIfAborted()
  throw new Error('the log of a run has no end')
}
