import { ServiceError } from '@bureau/protocol'

/**
 * The number after which a stream is to go on; undefined when the request names none. The query wins over the header.
 *
 * @throws ServiceError `invalid_last_event_id`
 */
export function readResumePoint(request: {
  /** `Last-Event-ID` */
  readonly header: string | readonly string[] | undefined
  /** `starting_after` */
  readonly query: string | undefined
}): number | undefined {
  const text = request.query ?? request.header
  if (typeof text !== 'string') return undefined
  const seq = Number(text)
  if (!/^\d{1,16}$/.test(text) || !Number.isSafeInteger(seq)) throw new ServiceError('invalid_last_event_id')
  return seq
}

/** Whether a reader at `after` has everything there is, so that the answer is 204 and it need not come again. */
export function hasEverything(reader: { readonly ended: boolean; readonly head: number }, after: number): boolean {
  return reader.ended && after >= reader.head
}
