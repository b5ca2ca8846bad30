import { eventEnvelope, type RunEvent, sseFrame } from '@bureau/protocol'
import { type FrameBody, frameData } from '../events/frame.ts'

/**
 * The frame of a run event, without its number; undefined for events that are not logged as they come.
 *
 * The data is that of the self-hosted server's stream, so that one client reads both. `run.started` is told in every
 * stream's own `meta`; how a run failed and ended is told in its terminal frames.
 */
export function encodeEvent(event: RunEvent): FrameBody | undefined {
  switch (event.type) {
    case 'oauth.redirect': {
      const { state, server, auth_url } = event
      return sseFrame(frameData(JSON.stringify({ state, server, auth_url })), { event: 'oauth_redirect' })
    }
    case 'oauth.status': {
      const { state, server, status } = event
      return sseFrame(frameData(JSON.stringify({ state, server, status })), { event: 'oauth_status' })
    }
    case 'run.started':
    case 'run.error':
    case 'run.ended':
      return undefined
    default: {
      const envelope = eventEnvelope(event)
      return envelope === undefined ? undefined : sseFrame(frameData(`{"data":${envelope}}`))
    }
  }
}
