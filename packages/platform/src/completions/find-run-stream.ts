import { setTimeout as sleep } from 'node:timers/promises'
import { newMessagesForClient } from '@bureau/framework'
import { ServiceError } from '@bureau/protocol'
import type { RunEventReader } from '../events/run-event-log.ts'
import { StoredRunLog } from '../events/stored-run-log.ts'
import type { Platform } from '../context.ts'
import { readEventChunks } from '../runs/event-chunks.ts'
import { getRun } from '../runs/read-runs.ts'
import type { RunOutput, RunView } from '../runs/run-view.ts'

export type RunStream = {
  readonly run: RunView
  readonly reader: RunEventReader
  /** True: the run begins with this request. */
  readonly isNew: boolean
  /** Whether a reader at this position is given everything that followed. */
  readonly hasAllAfter: (seq: number) => Promise<boolean>
}

type Wanted = { readonly ownerId: string; readonly runId: string; readonly integrationIds: readonly string[] | null }

/** A run is in the records a moment before its log can be read, and its log may be let go a moment before it ends. */
const PATIENCE_MS = 2_000
const PAUSE_MS = 50

/**
 * The stream of a run, wherever it is executed or kept.
 *
 * @throws ServiceError `run_not_found`, `stream_unavailable`: another process executes it and cannot be reached.
 */
export async function findRunStream(platform: Platform, wanted: Wanted): Promise<RunStream> {
  const { store, logs } = platform
  for (const until = performance.now() + PATIENCE_MS; ;) {
    const run = await store.db.run(getRun, { ...wanted, output: false })
    const reader = await logs.find(run.runId)
    const over = isEnded(run.status)
    if (reader && (reader.ended || !over)) return { run, reader, isNew: false, hasAllAfter: async () => true }
    const late = performance.now() > until
    // A log without an end, of a run that has ended: its process has died.
    if (over && (!reader || late)) return storedStream(platform, wanted)
    if (late) throw new ServiceError('stream_unavailable', { headers: { 'Retry-After': '2' } })
    await sleep(PAUSE_MS)
  }
}

async function storedStream({ store }: Platform, wanted: Wanted): Promise<RunStream> {
  const { ownerId, runId } = wanted
  const run = await store.db.run(getRun, { ...wanted, output: true })
  const { status } = run
  if (!isEnded(status)) throw new Error('an ended run became active')
  const reader = new StoredRunLog({
    chunks: { read: async (afterSeq) => (await store.db.run(readEventChunks, { ownerId, runId, afterSeq })).chunks },
    lastSeq: Number(run.lastEventId),
    outcome: {
      runId,
      chatId: run.chatId,
      status,
      newMessages: publicOutput(run).newMessages ?? [],
      usage: run.usage,
      error: run.error,
    },
  })
  return { run, reader, isNew: false, hasAllAfter: (seq) => reader.hasAllAfter(seq) }
}

type Ended = 'completed' | 'failed' | 'cancelled'

export function isEnded(status: RunView['status']): status is Ended {
  return status === 'completed' || status === 'failed' || status === 'cancelled'
}

/** What a run produced, as its `messages` frame has it. */
export function publicOutput<Output extends Partial<RunOutput>>(run: Output): Output {
  return run.newMessages ? { ...run, newMessages: newMessagesForClient(run.newMessages) } : run
}
