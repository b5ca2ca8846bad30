/**
 * One frame of a run's stream as it is stored and sent: its number, and its whole text with the `id` line.
 *
 * Frames of a run are numbered from 1 without a gap; only what recovery writes after a crash is far ahead.
 */
export type Frame = { readonly seq: number; readonly text: string }

/** A frame that has no number yet: its lines after the `id`, with the blank line that ends it. */
export type FrameBody = string

export function numberFrame(seq: number, body: FrameBody): Frame {
  return { seq, text: `id: ${seq}\n${body}` }
}

/** Cuts a stretch of a stored stream into its frames. Their data is JSON text, so a blank line only ends a frame. */
export function parseFrames(text: string): Frame[] {
  const frames: Frame[] = []
  for (let start = 0; start < text.length;) {
    const end = text.indexOf('\n\n', start) + 2
    const seq = Number(text.slice(start + 4, text.indexOf('\n', start)))
    if (end < 2 || !text.startsWith('id: ', start) || !Number.isSafeInteger(seq)) {
      throw new Error('a stored stretch of a run log is damaged')
    }
    frames.push({ seq, text: text.slice(start, end) })
    start = end
  }
  return frames
}

/** Whether nothing follows on this frame. */
export function isEndFrame({ text }: Frame): boolean {
  return text.endsWith('\nevent: end\ndata: [DONE]\n\n')
}

/** Whether this frame stands for all before it. */
export function isResetFrame({ text }: Frame): boolean {
  return text.startsWith('event: reset\n', text.indexOf('\n') + 1)
}

/**
 * The frames from `start` on that fit into about 64 KiB, at least one: what one reader may hold at a time.
 */
export function readablePart(frames: readonly Frame[], start: number): readonly Frame[] {
  let end = start
  for (let length = 0; end < frames.length && (end === start || length < MAX_BATCH_LENGTH); end++) {
    length += frames[end]!.text.length
  }
  return frames.slice(start, end)
}

export function* inParts(frames: readonly Frame[]): Generator<readonly Frame[], void> {
  for (let start = 0; start < frames.length;) {
    const part = readablePart(frames, start)
    yield part
    start += part.length
  }
}

const MAX_BATCH_LENGTH = 65_536

/**
 * JSON text as one line of a frame, with U+FFFD in place of U+0000 and of unpaired surrogates, which no record can
 * hold. Works on the text, so that numbers and the order of members stay as they came.
 */
export function frameData(json: string): string {
  const text = json.isWellFormed() ? json : json.toWellFormed()
  if (!SUSPECT.test(text)) return text
  return text
    .replace(ESCAPE, (escape, bad?: string) => (bad === undefined ? escape : '\\ufffd'))
    .replace(/[\r\n]/g, ' ')
}

const SUSPECT = /\\u(?:0000|d[89a-f])|[\r\n]/i
// Every escape in turn, so that an escaped backslash before a `u` is not taken for one; whole pairs come first.
const ESCAPE = /\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|u(0000|d[89a-f][0-9a-f]{2})|.)/gis
