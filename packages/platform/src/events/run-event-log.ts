import type { Message } from '@bureau/protocol'
import type { EventChunk } from '../runs/settle-run.ts'
import type { Frame, FrameBody } from './frame.ts'
import type { StreamBroken } from './stream-broken.ts'

/** What a run has produced so far: for a reader who can no longer be given the frames that led there. */
export type RunSnapshot = {
  /** The complete items, as in the `messages` frame. */
  readonly new_messages: readonly Message[]
  /** The text of the item that is being written, if there is one. */
  readonly partial?: { readonly item_id: string; readonly text: string }
}

/** The durable part of a run's log, kept as chunks. */
export type ChunkStorage = {
  /** Keeps a chunk that follows on the last one. After a lost answer the same chunk comes again. */
  append(chunk: EventChunk): Promise<void>
  /** The next chunks that hold frames after `after`, in order; not necessarily all. */
  read(after: number): Promise<readonly EventChunk[]>
}

export type NewRunLog = {
  readonly runId: string
  /** Used by implementations that keep nothing durable themselves. */
  readonly chunks: ChunkStorage
  /** Must describe the run exactly as its appended frames do. Never waits. */
  readonly snapshot: () => RunSnapshot
}

/** Reads the log of one run. Any number of readers, each with its own position; none of them holds back the run. */
export interface RunEventReader {
  /** The highest visible number when this was asked; 0 before the first frame. */
  readonly head: number
  /** True once the last frame is visible: nothing follows on `head`. */
  readonly ended: boolean

  /**
   * Yields the frames after number `after`, first what is there and then what comes, in batches of about 64 KiB, and
   * returns after the last frame of the run.
   *
   * Where frames are no longer kept, a `reset` frame stands for all of them; its number is that of the last one it
   * stands for.
   *
   * A log that another process writes also yields empty batches, when it was looked at and nothing was new: the other
   * process may have died, which its log does not say.
   *
   * @throws StreamBroken. @throws The reason of `signal` when it aborts.
   */
  read(after: number, signal: AbortSignal): AsyncIterable<readonly Frame[]>
}

/** What the transaction that ends a run has to write of its log. */
export type SealedLog = {
  /** The number of the last frame, `end`. */
  readonly lastSeq: number
  /** What durable storage does not have yet; null when the implementation keeps that itself. */
  readonly chunk: EventChunk | null
}

/** The log of one run in the process that executes it. */
export interface RunEventLog extends RunEventReader {
  /** Numbers a frame and shows it to all readers. Never waits; ignored once the log is sealed or abandoned. */
  append(body: FrameBody): void

  /** Gives what is new to durable storage. To be called every second. Calls do not overlap; a failed one is repeated. */
  store(): Promise<void>

  /**
   * Numbers the terminal frames without showing them. Nothing can be appended any more.
   *
   * Waits until what was handed to durable storage before is there. May be repeated until it succeeds.
   */
  seal(terminal: readonly FrameBody[]): Promise<SealedLog>

  /** Shows the terminal frames: the transaction that ends the run has committed. */
  release(): void

  /** Breaks off all readers, at once and without an `end`: the run is no longer this process's business. */
  abandon(error: StreamBroken): void
}

/** The logs of all runs that this process executes, and where possible of those that others do. */
export interface RunEventLogs {
  /** Begins the log of a run that this process executes. It is kept for a while after its end. */
  create(run: NewRunLog): RunEventLog

  /**
   * The log of a run; undefined when it is nowhere (any more), so that only durable storage knows of the run.
   *
   * @throws ServiceError `stream_unavailable` when it cannot be known.
   */
  find(runId: string): Promise<RunEventReader | undefined>

  /** Lets those who read the log elsewhere look at once: its run may have ended without a word in it. */
  nudge(runId: string): Promise<void>

  /** Breaks off whoever reads here what another process executes: it goes on there, and can be read at a third one. */
  sendReadersAway(): void

  /** Abandons every log that has not ended. */
  close(): Promise<void>
}
