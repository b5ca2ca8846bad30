import { Gate } from './gate.ts'
import { isJsonObject, type JsonObject } from './json-object.ts'
import { errorOfStatus } from './provider-error.ts'
import type { CutHow, EventMark, Framing, Hold, Part } from './turn.ts'

/**
 * Stops the answer until the test releases the gate.
 *
 * Without `before` it stops where it stands: between two items, or between two deltas of a message.
 * `before: 'response.completed'` or `before: 7` stops at an event, `before: 'headers'` before the status line.
 */
export function hold(gate: Gate, options: { before?: EventMark } = {}): Hold {
  return { part: 'hold', gate, before: options.before ?? null }
}

/** Silence that only the end of the connection ends. Options as for `hold`. */
export function stall(options: { before?: EventMark } = {}): Hold {
  return hold(new Gate(), options)
}

/** Breaks the answer off, where it stands or after so many events. */
export function cut(options: { how?: CutHow; after?: number } = {}): Part {
  return { part: 'cut', how: options.how ?? 'reset', after: options.after ?? null }
}

/** Bytes as they are, in the place where the part stands. */
export function raw(bytes: string | Uint8Array): Part {
  return { part: 'raw', bytes: typeof bytes === 'string' ? Buffer.from(bytes) : Buffer.from(bytes) }
}

/** A frame whose data is no JSON. */
export function malformed(data = '{"type":"response.output_text.delta","delta":'): Part {
  return raw(`data: ${data}\n\n`)
}

/** A page of a proxy in front of the provider, where a stream or JSON was expected. */
export function htmlPage(status = 200, page = '<html><body>Please log in.</body></html>'): Part {
  return { part: 'http', status, body: page, headers: { 'content-type': 'text/html; charset=utf-8' } }
}

/** An HTTP error. Without a body it is the one that the real service sends with that status. */
export function status(
  code: number,
  body: JsonObject | string = errorOfStatus(code).body,
  headers: Readonly<Record<string, string>> = {},
): Part {
  const [content, type] = isJsonObject(body) ? [JSON.stringify(body), 'application/json'] : [body, 'text/plain']
  return { part: 'http', status: code, body: content, headers: { 'content-type': type, ...headers } }
}

/** How the bytes of a stream are cut and joined. Default: LF, `event:` lines, one write per event. */
export function framing(how: Partial<Framing>): Part {
  return { part: 'framing', framing: how }
}
