import type { StreamEvent } from '@bureau/client'
import type { Turn } from './chat.ts'

/** When calls began and ended, with one more event, which was seen at `at`. */
export function timed(times: Turn['times'], event: StreamEvent, at: number): Turn['times'] {
  if (event.type !== 'run_item_stream_event') return times
  const { call_id: id, type = '' } = event.item.raw_item
  if (id === undefined) return times
  const known = times[id]
  if (type.endsWith('_call_output')) return known ? { ...times, [id]: [known[0], at] } : times
  return known ? times : { ...times, [id]: [at, null] }
}
