import type { Message, RunEvent } from '@bureau/protocol'
import type { StreamBroken } from './stream-broken.ts'

/** What a run has produced so far: for a reader who can no longer be given the events that led there. */
export type RunSnapshot = {
  /** The complete items, as in `RunEnded.new_messages`. */
  readonly new_messages: readonly Message[]
  /** The text of the item that is being written, if there is one. */
  readonly partial?: { readonly item_id: string; readonly text: string }
}

/** Stands for all events before it, which are no longer kept: forget the text shown so far and show this. */
type LogReset = RunSnapshot & { readonly type: 'log.reset'; readonly reason: 'log_lost' }

/** The last event of every log: nothing follows on it. */
type LogEnded = { readonly type: 'log.ended' }

/** What a log holds. */
export type LogEvent = RunEvent | LogReset | LogEnded

/**
 * Events that follow on each other: the first has the number `first`, the next one the next number.
 *
 * Events of a run are numbered from 1 without a gap, but for two jumps ahead: `run.resumed` has a number that no reader
 * has seen, and so has what recovery writes of a run that nobody goes on with. Wire formats are functions from these
 * events to text (`encode-batches.ts`).
 */
export type EventBatch = { readonly first: number; readonly events: readonly LogEvent[] }

/** A stretch of a log as text, compressed. */
export type EventChunk = { readonly firstSeq: number; readonly lastSeq: number; readonly body: Uint8Array }

/** The durable part of a run's log, kept as chunks. */
export type ChunkStorage = {
  /** Keeps a chunk that follows on the last one. After a lost answer the same chunk comes again. */
  append(chunk: EventChunk): Promise<void>
  /** The next chunks that hold events after `after`, in order; not necessarily all. */
  read(after: number): Promise<readonly EventChunk[]>
}

export type NewRunLog = {
  readonly runId: string
  /** Used by implementations that keep nothing durable themselves, or cannot for now. Absent: what leaves memory is lost. */
  readonly chunks?: ChunkStorage
  /** Must describe the run exactly as its appended events do. Never waits. */
  readonly snapshot: () => RunSnapshot
  /** Goes on with the log of a process that has given the run up. Absent: the run begins. */
  readonly resume?: LogResume | undefined
}

/** Where the log of a process ends, and that of the next one begins. */
export type LogResume = {
  /** The number of the last event that is kept of the process before; 0: none is. */
  readonly earlier: number
  /** The number of the first event of this one. */
  readonly first: number
}

/** Reads the log of one run. Any number of readers, each with its own position; none of them holds back the run. */
export interface RunLogReader {
  /** The highest visible number when this was asked; 0 before the first event. */
  readonly head: number
  /** True once the last event is visible: nothing follows on `head`. */
  readonly ended: boolean

  /**
   * Yields the events after number `after`, first what is there and then what comes, in batches of about 64 KiB, and
   * returns after `log.ended`.
   *
   * Where events are no longer kept, a `log.reset` stands for all of them; its number is that of the last one it
   * stands for.
   *
   * A log that another process writes also yields empty batches, when it was looked at and nothing was new: the other
   * process may have died, or left its run to a person, which its log does not say.
   *
   * @throws StreamBroken. @throws The reason of `signal` when it aborts.
   */
  read(after: number, signal: AbortSignal): AsyncIterable<EventBatch>
}

/** What the transaction that ends a run has to write of its log. */
export type SealedLog = {
  /** The number of the last event, `log.ended`. */
  readonly lastSeq: number
  /** What durable storage does not have yet; null when the implementation keeps that itself. */
  readonly chunk: EventChunk | null
}

/** The log of one run in the process that executes it. */
export interface RunLog extends RunLogReader {
  /** Numbers an event and shows it to all readers. Never waits; ignored once the log is sealed or abandoned. */
  append(event: LogEvent): void

  /** Gives what is new to durable storage. To be called every second. Calls do not overlap; a failed one is repeated. */
  store(): Promise<void>

  /**
   * Numbers the last events without showing them; `log.ended` follows on the given ones. Nothing can be appended any more.
   *
   * Waits until what was handed to durable storage before is there. May be repeated until it succeeds.
   */
  seal(ending: readonly LogEvent[]): Promise<SealedLog>

  /** Shows the last events: the transaction that ends the run has committed. */
  release(): void

  /** Breaks off all readers, at once and without an end: the run is no longer this process's business. */
  abandon(error: StreamBroken): void

  /**
   * As `abandon`, when all that was appended is kept for the process that goes on with the run, as far as it can be.
   *
   * @param reason - `run_waits`: nobody goes on with it before a person has decided.
   */
  handOver(reason: 'run_handed_over' | 'run_waits'): Promise<void>
}

/** The logs of all runs that this process executes, and where possible of those that others do. */
export interface RunLogs {
  /** False: the logs of other processes cannot be reached now. Those of this process give theirs to durable storage meanwhile. */
  readonly isReachable: boolean

  /** Begins the log of a run that this process executes. It is kept for a while after its end. */
  create(run: NewRunLog): RunLog

  /**
   * The log of a run; undefined when it is nowhere (any more), so that only durable storage knows of the run.
   *
   * @throws ServiceError `stream_unavailable` when it cannot be known.
   */
  find(runId: string): Promise<RunLogReader | undefined>

  /** Drops the log of a run that has ended, before its time is over. */
  forget(runId: string): void

  /** Lets those who read the log elsewhere look at once: its run may have ended without an event in it. */
  nudge(runId: string): Promise<void>

  /** Breaks off whoever reads here what another process executes: it goes on there, and can be read at a third one. */
  sendReadersAway(): void

  /** Abandons every log that has not ended. */
  close(): Promise<void>
}

const MAX_BATCH_BYTES = 65_536

/** The number of the last event; `first - 1` for an empty batch. */
export function lastSeqOf({ first, events }: EventBatch): number {
  return first + events.length - 1
}

/** What of a batch comes after number `after`. */
export function batchAfter({ first, events }: EventBatch, after: number): EventBatch {
  return after < first ? { first, events } : { first: after + 1, events: events.slice(after + 1 - first) }
}

/** Whether a batch begins with an event that says why numbers may be missing before it. */
export function isAnnounced({ events: [first] }: EventBatch): boolean {
  return first?.type === 'run.resumed' || first?.type === 'log.reset'
}

/** Whether nothing follows on this batch. */
export function isLastBatch({ events }: EventBatch): boolean {
  return events.at(-1)?.type === 'log.ended'
}

/**
 * The events after number `after` that fit into about 64 KiB, at least one: what one reader may hold at a time. Empty
 * when there are none.
 */
export function partAfter({ first, events }: EventBatch, after: number): EventBatch {
  const start = Math.max(0, after + 1 - first)
  let end = start
  for (let bytes = 0; end < events.length && bytes < MAX_BATCH_BYTES; end++) bytes += sizeOf(events[end]!)
  return { first: first + start, events: events.slice(start, end) }
}

/** A batch in such parts. */
export function* inParts(batch: EventBatch): Generator<EventBatch, void> {
  let part = partAfter(batch, batch.first - 1)
  for (; part.events.length > 0; part = partAfter(batch, lastSeqOf(part))) yield part
}

const sizes = new WeakMap<LogEvent, number>()

/** About what an event takes in memory and on the wire, in bytes. Only a model event is asked often, and costs nothing. */
export function sizeOf(event: LogEvent): number {
  if (event.type === 'model.event') return event.json.length + MODEL_EVENT_BYTES
  const known = sizes.get(event)
  if (known !== undefined) return known
  const size = JSON.stringify(event).length
  sizes.set(event, size)
  return size
}

/** Of a model event besides its own text: mostly who speaks. */
const MODEL_EVENT_BYTES = 200
