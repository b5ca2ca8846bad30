import { promisify } from 'node:util'
import { gunzip, gzip, gzipSync } from 'node:zlib'
import type { EventBatch, EventChunk, LogEvent } from './run-log.ts'

/**
 * Events as text for storage: a line for each. A model event's line ends with its own JSON, after a tab, as the provider
 * sent it; JSON that this process writes holds neither tabs nor line breaks.
 */
export function encodeEvents(events: readonly LogEvent[]): string {
  let text = ''
  for (const event of events) text += encodeLine(event)
  return text
}

function encodeLine(event: LogEvent): string {
  if (event.type !== 'model.event') return `${JSON.stringify(event)}\n`
  const { json, ...rest } = event
  return `${JSON.stringify(rest)}\t${LINE_BREAK.test(json) ? json.replace(LINE_BREAKS, ' ') : json}\n`
}

const LINE_BREAK = /[\r\n]/
const LINE_BREAKS = /[\r\n]/g

/** @throws Error the text was not made by `encodeEvents`. */
export function decodeEvents(text: string): LogEvent[] {
  const lines = text.split('\n')
  if (lines.pop() !== '') throw damaged()
  return lines.map(decodeLine)
}

function decodeLine(line: string): LogEvent {
  const tab = line.indexOf('\t')
  try {
    const event = JSON.parse(tab < 0 ? line : line.slice(0, tab)) as LogEvent
    return tab < 0 ? event : ({ ...event, json: line.slice(tab + 1) } as LogEvent)
  } catch (cause) {
    throw damaged(cause)
  }
}

function damaged(cause?: unknown): Error {
  return new Error('a stored stretch of a run log is damaged', { cause })
}

const compress = promisify(gzip)
const decompress = promisify(gunzip)

const FAST = { level: 1 }

/** Compressing this much takes less time than handing it to another thread, */
const SMALL_LENGTH = 32_768
/** and less memory than a compressor has by default, which would be fetched from the system each time. */
const SMALL = { ...FAST, windowBits: 13, memLevel: 5, chunkSize: 4_096 }

/** A stretch of a run's log for durable storage. `events` is not empty. */
export async function encodeChunk({ first, events }: EventBatch): Promise<EventChunk> {
  const text = encodeEvents(events)
  const body = text.length <= SMALL_LENGTH ? gzipSync(text, SMALL) : await compress(text, FAST)
  return { firstSeq: first, lastSeq: first + events.length - 1, body }
}

/** @throws Error the chunk is damaged. */
export async function decodeChunk({ firstSeq, body }: Pick<EventChunk, 'firstSeq' | 'body'>): Promise<EventBatch> {
  return { first: firstSeq, events: decodeEvents((await decompress(body)).toString()) }
}
