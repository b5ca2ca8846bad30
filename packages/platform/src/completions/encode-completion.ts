import { eventEnvelope, type RunEnded, SSE_END, sseFrame } from '@bureau/protocol'
import type { EncodeEvent, LogEvent } from '@bureau/runtime'
import { runErrorView } from '../run-records/run-view.ts'

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
  /** True: the events in between are no longer kept, only the last ones follow. */
  readonly replayed: boolean
}

/** How long a client is to wait before it connects again. */
const RETRY_MS = 2_000

/** How the stream of a completion begins. */
export function encodeMeta(meta: StreamMeta): string {
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
  return `retry: ${RETRY_MS}\n${jsonFrame(data, 'meta')}`
}

/**
 * The frames of a completion after `meta`, each with its number, so that a client can resume after it.
 *
 * The data is that of the self-hosted server's stream, so that one client reads both. An error of the whole run comes
 * right before `messages`.
 */
export function completionEncoder(chatId: string): EncodeEvent {
  return (event, seq) => `id: ${seq}\n${frameOf(event, chatId)}`
}

function frameOf(event: LogEvent, chatId: string): string {
  switch (event.type) {
    case 'oauth.redirect': {
      const { state, server, auth_url } = event
      return jsonFrame({ state, server, auth_url }, 'oauth_redirect')
    }
    case 'oauth.status': {
      const { state, server, status } = event
      return jsonFrame({ state, server, status }, 'oauth_status')
    }
    case 'approval.requested': {
      const { type: _type, source: _source, ...request } = event
      return jsonFrame(request, 'approval_requested')
    }
    case 'run.resumed': {
      const { attempt, withdrawn } = event
      return jsonFrame({ attempt, withdrawn }, 'run_resumed')
    }
    case 'log.reset': {
      const { type: _, ...data } = event
      return jsonFrame(data, 'reset')
    }
    case 'run.error':
      return jsonFrame({ error: event.error.message, code: event.error.code })
    case 'run.ended':
      return jsonFrame(messagesData(event, chatId), 'messages')
    case 'log.ended':
      return SSE_END
    default:
      return sseFrame(frameData(`{"data":${eventEnvelope(event) ?? 'null'}}`))
  }
}

function messagesData(ended: RunEnded, chatId: string): Record<string, unknown> {
  const { status, error, usage, approvals, file_ids_map } = ended
  return {
    new_messages: ended.new_messages,
    run_id: ended.run_id,
    chatId,
    status,
    cancelled: status === 'cancelled',
    ...(error && { error: runErrorView(error) }),
    ...(usage && { usage }),
    ...(approvals && { approvals }),
    ...(file_ids_map && { file_ids_map }),
  }
}

function jsonFrame(data: object, event?: string): string {
  return sseFrame(frameData(JSON.stringify(data)), event === undefined ? {} : { event })
}

/**
 * JSON text as one line of a frame, with U+FFFD in place of U+0000 and of unpaired surrogates, which no record can
 * hold. Works on the text, so that numbers and the order of members stay as they came.
 */
export function frameData(json: string): string {
  const text = json.isWellFormed() ? json : json.toWellFormed()
  if (!SUSPECT.test(text)) return text
  return text
    .replace(ESCAPE, (escape, bad?: string) => (bad === undefined ? escape : '\\ufffd'))
    .replace(/[\r\n]/g, ' ')
}

const SUSPECT = /\\u(?:0000|d[89a-f])|[\r\n]/i
// Every escape in turn, so that an escaped backslash before a `u` is not taken for one; whole pairs come first.
const ESCAPE = /\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|u(0000|d[89a-f][0-9a-f]{2})|.)/gis
