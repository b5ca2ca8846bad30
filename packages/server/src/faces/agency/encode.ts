import type { EncodeEvent, LogEvent } from '@bureau/runtime'
import { eventEnvelope, type RunEnded, type RunError, SSE_END, sseFrame } from '@bureau/protocol'
import { isFileUrlsFailure } from '../../agencies/attachment-failure.ts'

/**
 * The frames of `get_response_stream`.
 *
 * `meta` waits for the event after it, because a run whose `file_urls` cannot be used has neither `meta` nor `messages`.
 */
export function agencyEncoder(): EncodeEvent {
  let meta = ''
  let isRefused = false
  return (event) => {
    if (event.type === 'run.started') {
      meta = frameOf(event)
      return ''
    }
    if (event.type === 'run.error' && isFileUrlsFailure(event.error)) {
      isRefused = true
      meta = ''
      return sseFrame(JSON.stringify(errorOf(event.error)))
    }
    if (event.type === 'run.ended' && isRefused) return ''
    const text = meta + frameOf(event)
    meta = ''
    return text
  }
}

/**
 * How the stream of a run begins that goes on without its client: `meta` is sent at once, since a client needs it to come
 * back, and belongs to one reader's stream.
 */
export function keptMeta(meta: {
  readonly run_id: string
  readonly resumed: boolean
  readonly resume_from: number
}): string {
  return `retry: ${RETRY_MS}\n${sseFrame(JSON.stringify(meta), { event: 'meta' })}`
}

/** How long a client is to wait before it connects again. */
const RETRY_MS = 2_000

/** The frames of such a stream after `meta`: the same, each with the number of its event. */
export const encodeKept: EncodeEvent = (event, seq) => `id: ${seq}\n${frameOf(event)}`

function frameOf(event: LogEvent): string {
  switch (event.type) {
    case 'run.started':
      return sseFrame(JSON.stringify({ run_id: event.run_id }), { event: 'meta' })
    case 'oauth.redirect': {
      const { state, server, auth_url } = event
      return sseFrame(JSON.stringify({ state, server, auth_url }), { event: 'oauth_redirect' })
    }
    case 'oauth.status': {
      const { state, server, status } = event
      return sseFrame(JSON.stringify({ state, server, status }), { event: 'oauth_status' })
    }
    case 'approval.requested': {
      const { type: _type, source: _source, ...request } = event
      return sseFrame(JSON.stringify(request), { event: 'approval_requested' })
    }
    case 'run.resumed': {
      const { attempt, withdrawn } = event
      return sseFrame(JSON.stringify({ attempt, withdrawn }), { event: 'run_resumed' })
    }
    case 'run.ended':
      return sseFrame(JSON.stringify(messagesPayload(event)), { event: 'messages' })
    case 'log.ended':
      return SSE_END
    case 'log.reset': {
      const { type: _, ...data } = event
      return sseFrame(JSON.stringify(data), { event: 'reset' })
    }
    default: {
      const envelope = eventEnvelope(event)
      if (envelope !== undefined) return `data: {"data":${envelope}}\n\n`
      return sseFrame(JSON.stringify(event.type === 'run.error' ? errorOf(event.error) : NOT_JSON))
    }
  }
}

const NOT_JSON = { error: 'An event of the agency was left out: it is not JSON.', code: 'internal_error' }

/** A failure of a run, with its code in docs/errors.md. */
export function errorOf({ code, message }: RunError): { readonly error: string; readonly code: string } {
  return { error: message, code }
}

/** The payload of the `messages` frame, the last but one of every stream. */
function messagesPayload(ended: RunEnded): Record<string, unknown> {
  return {
    new_messages: ended.new_messages,
    run_id: ended.run_id,
    ...(ended.status === 'cancelled' && { cancelled: true }),
    ...(ended.status === 'waiting' && { status: 'waiting', approvals: ended.approvals }),
    ...(ended.file_ids_map && { file_ids_map: ended.file_ids_map }),
    ...(ended.chat_name !== undefined && { chat_name: ended.chat_name }),
    ...(ended.usage && { usage: ended.usage }),
  }
}
