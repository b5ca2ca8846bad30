import { type Message, SSE_END, sseFrame, type Usage } from '@bureau/protocol'
import { type Frame, type FrameBody, frameData } from '../events/frame.ts'
import type { RunErrorView } from '../runs/run-view.ts'

/** What the first frame of a stream says. It belongs to one reader's stream and has no number. */
export type StreamMeta = {
  readonly runId: string
  readonly chatId: string
  readonly aliasChatId: string | null
  readonly usageRequestId: string | null
  /** The agent that was addressed. */
  readonly agent: string
  /** RFC 3339. */
  readonly createdAt: string
  /** Where the same run can be followed: `{stream_url}/v1/runs/{runId}/events`. */
  readonly eventsUrl: string
  /** The number after which the stream goes on; 0: from the start. */
  readonly resumeFrom: number
  /** True: this is not the first stream of the run for this reader. */
  readonly resumed: boolean
  /** True: the frames in between are no longer kept, only the last ones follow. */
  readonly replayed: boolean
}

/** How a run ended, as the transaction that ends it says. */
export type RunOutcome = {
  readonly runId: string
  readonly chatId: string
  readonly status: 'completed' | 'failed' | 'cancelled'
  readonly newMessages: readonly Message[]
  /** Null: nothing is said of it. */
  readonly usage: Usage | null
  /** Exactly for a failed run. */
  readonly error: RunErrorView | null
  readonly fileIdsMap?: Readonly<Record<string, string>>
}

/** How long a client is to wait before it connects again. */
const RETRY_MS = 2_000

/** The stream of a completion: `meta`, and then the frames of the run as they are logged. */
export async function* encodeCompletion(
  meta: StreamMeta,
  frames: AsyncIterable<readonly Frame[]>,
): AsyncGenerator<string, void> {
  yield encodeMeta(meta)
  for await (const batch of frames) yield batch.map(({ text }) => text).join('')
}

function encodeMeta(meta: StreamMeta): string {
  const data = {
    run_id: meta.runId,
    chatId: meta.chatId,
    aliasChatId: meta.aliasChatId,
    usageRequestId: meta.usageRequestId,
    agent: meta.agent,
    created_at: meta.createdAt,
    resumed: meta.resumed,
    replayed: meta.replayed,
    resume_from: meta.resumeFrom,
    events_url: meta.eventsUrl,
  }
  return `retry: ${RETRY_MS}\n${sseFrame(frameData(JSON.stringify(data)), { event: 'meta' })}`
}

/** The frames with which a run ends: the error of a failed one, `messages`, `end`. */
export function terminalFrames(outcome: RunOutcome): FrameBody[] {
  const { error } = outcome
  const failure =
    error === null ? [] : [sseFrame(frameData(JSON.stringify({ error: error.message, code: error.code })))]
  return [...failure, sseFrame(frameData(JSON.stringify(messagesData(outcome))), { event: 'messages' }), SSE_END]
}

function messagesData({ fileIdsMap, ...outcome }: RunOutcome): Record<string, unknown> {
  return {
    new_messages: outcome.newMessages,
    run_id: outcome.runId,
    chatId: outcome.chatId,
    status: outcome.status,
    cancelled: outcome.status === 'cancelled',
    ...(outcome.error && { error: outcome.error }),
    ...(outcome.usage && { usage: outcome.usage }),
    ...(fileIdsMap && { file_ids_map: fileIdsMap }),
  }
}
