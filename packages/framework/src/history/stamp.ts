import { type Message, type WireItem, withoutMetadata } from '@bureau/protocol'

/** What is noted on every stored item: whose it is and where it comes from. */
type Stamp = {
  readonly agent: string
  readonly callerAgent: string | null
  readonly agent_run_id: string
  readonly parent_run_id?: string
  readonly run_trace_id: string
  /** Microseconds since the epoch (`timestampMicros`). */
  readonly timestamp: number
  /** Set on items of the framework's making. */
  readonly message_origin?: string
}

/** A place in a file on which an assistant's message relies. */
type Citation = {
  readonly type: 'file_citation'
  readonly method: 'direct_file'
  readonly file_id: string
  readonly filename?: string
  readonly index?: number
}

/** The item as it is stored and shown. Metadata that it already had does not count. */
export function stamp(item: WireItem, source: Stamp): Message {
  const citations = citationsOf(item)
  const stored: Message = withoutMetadata(item)
  if (stored.type == null && typeof stored.role === 'string') stored.type = 'message'
  return Object.assign(stored, {
    agent: source.agent,
    callerAgent: source.callerAgent,
    agent_run_id: source.agent_run_id,
    ...(source.parent_run_id !== undefined && { parent_run_id: source.parent_run_id }),
    run_trace_id: source.run_trace_id,
    history_protocol: 'responses',
    timestamp: source.timestamp,
    ...(source.message_origin !== undefined && { message_origin: source.message_origin }),
    ...(citations.length > 0 && { citations }),
  })
}

/** The file citations in the annotations of an assistant's message; none for other items. */
export function citationsOf(item: WireItem): Citation[] {
  if (item.role !== 'assistant' || !Array.isArray(item['content'])) return []
  return item['content'].flatMap(annotationsOf).flatMap(citationOf)
}

function annotationsOf(part: unknown): readonly unknown[] {
  const annotations = (part as { annotations?: unknown } | null)?.annotations
  return Array.isArray(annotations) ? annotations : []
}

function citationOf(annotation: unknown): Citation[] {
  const { type, file_id, filename, index } = (annotation ?? {}) as Record<string, unknown>
  if (type !== 'file_citation' || typeof file_id !== 'string') return []
  return [
    {
      type,
      method: 'direct_file',
      file_id,
      ...(typeof filename === 'string' && { filename }),
      ...(typeof index === 'number' && { index }),
    },
  ]
}

/** The time in microseconds, at least one more than any that was given out before in this process. */
export function timestampMicros(nowMs: number): number {
  latestMicros = Math.max(Math.trunc(nowMs * 1000), latestMicros + 1)
  return latestMicros
}

// Items of all runs are distinguished, and sorted, by their time.
let latestMicros = 0
