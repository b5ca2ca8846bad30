import { ServiceError } from '@bureau/protocol'
import { type EventBatch, type RunLogReader, StreamBroken } from '@bureau/runtime'
import { RunText } from './run-text.ts'

/** How a text that came to its end did so: the value of the trailer `X-Agent-Run-Status`. */
type TextStatus = 'completed' | 'cancelled' | 'waiting'

/**
 * Text in pieces that never part a code point. Returns how the run ended.
 *
 * @throws StreamBroken when the run failed, or its log broke off: reset the connection. @throws The reason of `signal`.
 */
export type TextStream = AsyncGenerator<string, TextStatus>

/**
 * The text of a run for its user, in Text Only Mode: exactly what the agents of the user's conversation say, messages
 * set apart by a blank line.
 *
 * @param offset - UTF-8 bytes that the reader has; 0: from the start.
 * @returns Undefined when the reader has the whole text of a run that is over (204).
 * @throws ServiceError `invalid_offset` when `offset` lies within a character. Text is counted from its start, so
 *   what exists of it is read before this resolves.
 */
export async function encodeText(
  log: RunLogReader,
  { offset, signal }: { readonly offset: number; readonly signal: AbortSignal },
): Promise<TextStream | undefined> {
  const until = log.ended ? Infinity : log.head
  const pieces = textOf(log.read(0, signal))
  if (offset === 0) return follow(pieces, { text: '', missing: 0, end: undefined })
  const { text, end } = await collect(pieces, until)
  const missing = offset - Buffer.byteLength(text)
  const isOver = missing >= 0 && typeof end === 'string'
  const rest = missing < 0 ? from(text, offset) : ''
  if (!isOver && rest !== undefined) return follow(pieces, { text: rest, missing: Math.max(0, missing), end })
  await pieces.return('completed')
  if (rest === undefined) throw new ServiceError('invalid_offset')
  return undefined
}

/** Reads `offset` of a request. @throws ServiceError `invalid_offset` */
export function readOffset(query: string | undefined): number {
  const offset = Number(query ?? 0)
  if (!/^\d{1,16}$/.test(query ?? '0') || !Number.isSafeInteger(offset)) throw new ServiceError('invalid_offset')
  return offset
}

type Pieces = AsyncGenerator<{ readonly text: string; readonly seq: number }, TextStatus>

/** One piece for each batch of events, also where it holds no text. */
async function* textOf(batches: AsyncIterable<EventBatch>): Pieces {
  const runText = new RunText()
  for await (const { first, events } of batches) {
    const text = events.map((event, index) => (runText.withdrawn ? '' : runText.read(event, first + index))).join('')
    yield { text, seq: first + events.length - 1 }
    if (runText.withdrawn) throw new StreamBroken('run_taken_away')
    if (runText.status === 'failed') throw new StreamBroken('run_failed')
    // A run that recovery ended as cancelled has a gap in its numbers, and lost nothing that anybody waits for.
    if (runText.incomplete && runText.status !== 'cancelled') throw new StreamBroken('log_lost')
    if (runText.status !== undefined) return runText.status
  }
  throw new StreamBroken('log_lost')
}

type Collected = { readonly text: string; readonly end: TextStatus | StreamBroken | undefined }

/** Reads what exists. That the run failed is kept for later: what it said before comes first. */
async function collect(pieces: Pieces, until: number): Promise<Collected> {
  let text = ''
  try {
    for (let seq = 0; seq < until;) {
      const next = await pieces.next()
      if (next.done) return { text, end: next.value }
      text += next.value.text
      seq = next.value.seq
    }
    return { text, end: undefined }
  } catch (error) {
    if (error instanceof StreamBroken) return { text, end: error }
    throw error
  }
}

type Start = Collected & { /** Bytes of the offset that do not exist yet. */ readonly missing: number }

async function* follow(pieces: Pieces, start: Start): TextStream {
  let { missing } = start
  try {
    if (start.text !== '') yield start.text
    if (start.end instanceof StreamBroken) throw start.end
    if (start.end !== undefined) return start.end
    for (;;) {
      const next = await pieces.next()
      if (next.done) return next.value
      const { text } = next.value
      const size = Buffer.byteLength(text)
      const rest = size > missing ? from(text, missing) : ''
      // The headers are out by the time that an offset ahead of the text turns out to be none.
      if (rest === undefined) throw new StreamBroken('log_lost')
      if (rest !== '') yield rest
      missing = Math.max(0, missing - size)
    }
  } finally {
    await pieces.return('completed')
  }
}

/** The text from a byte on; undefined when that lies within a character. */
function from(text: string, offset: number): string | undefined {
  if (offset === 0) return text
  const bytes = Buffer.from(text)
  return ((bytes[offset] ?? 0) & 0xc0) === 0x80 ? undefined : bytes.toString('utf8', offset)
}
