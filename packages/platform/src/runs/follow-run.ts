import type { IncomingHttpHeaders } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RunErrorCode, ServiceError } from '@bureau/protocol'
import {
  type EventBatch,
  lastSeqOf,
  type RunLogReader,
  StoredRunFollower,
  StoredRunLog,
  StreamBroken,
} from '@bureau/runtime'
import type { Platform } from '../context.ts'
import { storedChunks } from '../run-records/event-chunks.ts'
import { getRun, type Reach } from '../run-records/read-runs.ts'
import type { RunKey } from '../run-records/runs.repo.ts'
import { openCalls, type RunView } from '../run-records/run-view.ts'
import type { Admitted } from './admit/admit-run.ts'
import { readWaitingCalls } from './approve/decide-approvals.ts'
import { endingOf } from './settle/ending-events.ts'

export type RunStream = {
  readonly run: RunView
  readonly reader: RunLogReader
  /** True: the run begins with this request. */
  readonly isNew: boolean
  /** Whether a reader at this position is given everything that followed. */
  readonly hasAllAfter: (seq: number) => Promise<boolean>
}

type Wanted = RunKey & Reach

/** A run is in the records a moment before its log can be read, and its log may be gone a moment before it ends. */
const PATIENCE_MS = 2_000
const PAUSE_MS = 50

/**
 * The stream of a run, wherever it is executed or kept.
 *
 * @throws ServiceError `run_not_found`, `stream_unavailable`: another process executes it and cannot be reached.
 */
export async function findRunStream(platform: Platform, wanted: Wanted): Promise<RunStream> {
  const { store } = platform
  for (const until = performance.now() + PATIENCE_MS; ;) {
    const run = await store.db.run(getRun, { ...wanted, output: false })
    const reader = await findLog(platform, wanted, run)
    const over = isAtRest(run.status)
    if (reader && (reader.ended || !over)) {
      return { run, reader: endedByRecord(reader, platform, wanted), isNew: false, hasAllAfter: async () => true }
    }
    const late = performance.now() > until
    // A log without an end: its run waits, or its process has died.
    if (over && (!reader || run.status === 'waiting' || late)) {
      const stored = await storedStream(platform, wanted)
      if (stored) return reader && run.status === 'waiting' ? waitingStream(reader, stored) : stored
    }
    if (late) throw new ServiceError('stream_unavailable', { headers: { 'Retry-After': '2' } })
    await sleep(PAUSE_MS)
  }
}

/** The log of a run, or else what another process stores of it each second. What is at rest can be read without either. */
async function findLog(
  { store, logs, executor }: Platform,
  wanted: Wanted,
  run: RunView,
): Promise<RunLogReader | undefined> {
  if (logs.isReachable && !isAtRest(run.status)) {
    const log = await logs.find(run.runId)
    return log && executor.find(run.runId) === undefined ? whileReachable(log, logs) : log
  }
  const found = await logs.find(run.runId).catch(() => undefined)
  if (found || isAtRest(run.status)) return found
  const { ownerId, runId } = wanted
  const chunks = storedChunks(store.db, { ownerId, runId })
  return new StoredRunFollower({ chunks, head: Number(run.lastEventId), isOver: () => logs.isReachable })
}

/** A run of another process, in Redis. When Redis refuses writes, nothing more comes: the client comes again, and reads what is stored. */
function whileReachable(log: RunLogReader, logs: Platform['logs']): RunLogReader {
  const read = async function* (after: number, signal: AbortSignal): AsyncGenerator<EventBatch, void> {
    for await (const batch of log.read(after, signal)) {
      if (batch.events.length === 0 && !logs.isReachable) throw new StreamBroken('log_unreachable')
      yield batch
    }
  }
  return { head: log.head, ended: log.ended, read }
}

/** Begins a run that was just admitted, at once, so that whoever looks for it finds its log. */
export function beginRun(
  platform: Platform,
  { ownerId, integrationIds }: Omit<Wanted, 'runId'>,
  { run, settings, context, bootId }: Admitted,
  headers: IncomingHttpHeaders,
): RunStream {
  const { runId, chatId, agent } = run
  const traceParent = headers['traceparent'] as string | undefined
  const { log } = platform.executor.start({ ownerId, runId, bootId, chatId, agent, settings, traceParent }, context)
  const reader = endedByRecord(log, platform, { ownerId, runId, integrationIds })
  return { run, reader, isNew: true, hasAllAfter: async () => true }
}

/** The log of a run that waits or whose process has died ends as its record says. Every other has an end of its own soon. */
function endedByRecord(log: RunLogReader, platform: Platform, wanted: Wanted): RunLogReader {
  let endedAt: number | undefined
  const ending = async (isLogLost = false): Promise<RunLogReader | undefined> => {
    const { status, error } = await platform.store.db.run(getRun, { ...wanted, output: false })
    if (!isAtRest(status)) return undefined
    endedAt ??= performance.now()
    const hasNoEnd = isLogLost || status === 'waiting' || error?.code === 'runner_lost'
    const isLate = performance.now() - endedAt > PATIENCE_MS
    return hasNoEnd || isLate ? (await storedStream(platform, wanted))?.reader : undefined
  }
  return {
    head: log.head,
    ended: log.ended,
    read: (after, signal) => readToEnd(log, { after, signal, ending }),
  }
}

type Reading = {
  readonly after: number
  readonly signal: AbortSignal
  /** What the record has instead of the log, when the run has ended. */
  readonly ending: (isLogLost?: boolean) => Promise<RunLogReader | undefined>
}

async function* readToEnd(log: RunLogReader, reading: Reading): AsyncGenerator<EventBatch, void> {
  const { after, signal, ending } = reading
  let position = after
  let stored: RunLogReader | undefined
  try {
    for await (const batch of log.read(after, signal)) {
      if (batch.events.length > 0) {
        yield batch
        position = lastSeqOf(batch)
      } else if ((stored = await orUnreachable(ending()))) break
    }
  } catch (error) {
    if (!(error instanceof StreamBroken) || (error.reason !== 'log_lost' && error.reason !== 'run_waits')) throw error
    stored = await orUnreachable(ending(true))
    if (!stored) throw error
  }
  if (stored) yield* stored.read(position, signal)
}

/** The client comes again. */
function orUnreachable<T>(answer: Promise<T>): Promise<T> {
  return answer.catch((cause: unknown) => {
    throw new StreamBroken('log_unreachable', { cause })
  })
}

/** What a log holds of a run that waits, and then its last events, which are in the record alone. */
function waitingStream(log: RunLogReader, { reader: stored, ...stream }: RunStream): RunStream {
  const read = async function* (after: number, signal: AbortSignal): AsyncGenerator<EventBatch, void> {
    let position = after
    try {
      for await (const batch of position < log.head ? log.read(after, signal) : []) {
        if (batch.events.length === 0) break
        yield batch
        position = lastSeqOf(batch)
        if (position >= log.head) break
      }
    } catch (error) {
      if (!(error instanceof StreamBroken)) throw error
    }
    yield* stored.read(position, signal)
  }
  return { ...stream, reader: { head: stored.head, ended: true, read }, hasAllAfter: async () => true }
}

/** By the records alone. Undefined: the run has gone on since it was found at rest. */
async function storedStream({ store }: Platform, wanted: Wanted): Promise<RunStream | undefined> {
  const { ownerId, runId } = wanted
  const run = await store.db.run(getRun, { ...wanted, output: true })
  const { status } = run
  if (!isAtRest(status)) return undefined
  const approvals = status === 'waiting' ? await store.db.run(readWaitingCalls, { ownerId, runId }) : undefined
  const produced = run.newMessages ?? []
  const callerCalls = status === 'completed' ? openCalls(produced) : []
  const reader = new StoredRunLog({
    chunks: storedChunks(store.db, { ownerId, runId }),
    lastSeq: Number(run.lastEventId),
    produced,
    ending: endingOf({
      run_id: runId,
      status,
      new_messages: produced,
      usage: run.usage,
      error: run.error && { code: run.error.code as RunErrorCode, message: run.error.message },
      ...(approvals && { approvals }),
      ...(callerCalls.length > 0 && { caller_calls: callerCalls }),
    }),
  })
  return { run, reader, isNew: false, hasAllAfter: (seq) => reader.hasAllAfter(seq) }
}

type Ended = 'completed' | 'failed' | 'cancelled'

/** True: no process works on it. */
export function isAtRest(status: RunView['status']): status is Ended | 'waiting' {
  return isEnded(status) || status === 'waiting'
}

export function isEnded(status: RunView['status']): status is Ended {
  return status === 'completed' || status === 'failed' || status === 'cancelled'
}
