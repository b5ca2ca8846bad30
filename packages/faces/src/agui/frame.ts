import type { AGUIEvent } from '@ag-ui/core'
import { sseFrame } from '@bureau/protocol'

/** One AG-UI event as a server-sent event. */
export function frame(event: AGUIEvent): string {
  return sseFrame(JSON.stringify(event))
}
