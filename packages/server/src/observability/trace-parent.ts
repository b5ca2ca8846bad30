import { type Context, ROOT_CONTEXT, trace } from '@opentelemetry/api'

/** Version 00 (W3C Trace Context, section 3.2); later versions begin the same way. */
const TRACE_PARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/

/** The trace that a caller's `traceparent` header belongs to; a new one without it. */
export function traceContextOf(header: unknown): Context {
  const found = typeof header === 'string' ? TRACE_PARENT.exec(header) : null
  if (!found) return ROOT_CONTEXT
  const [, traceId = '', spanId = '', flags = ''] = found
  const traceFlags = Number.parseInt(flags, 16) & 1
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true })
}
