import type { AGUIEvent } from '@ag-ui/core'
import { eventEnvelope, type RunEvent, sseFrame } from '@bureau/protocol'

/** One AG-UI event as a server-sent event. */
export function frame(event: AGUIEvent): string {
  return sseFrame(JSON.stringify(event))
}

/** An event as it is, for pages that read more than the protocol; nothing where it is not JSON. */
export function rawFrame(event: RunEvent): string {
  const text = eventEnvelope(event)
  return text === undefined ? '' : `data: {"type":"RAW","event":${text}}\n\n`
}
