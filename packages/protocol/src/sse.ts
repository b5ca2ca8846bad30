/** `data: [DONE]` under the name `end`: the last frame of every stream. */
export const SSE_END = 'event: end\ndata: [DONE]\n\n'

/** One server-sent event. `data` must be JSON text, which holds no line break. */
export function sseFrame(data: string, options: { event?: string; id?: string } = {}): string {
  const event = options.event === undefined ? '' : `event: ${options.event}\n`
  const id = options.id === undefined ? '' : `id: ${options.id}\n`
  return `${id}${event}data: ${data}\n\n`
}

/** The comment that keeps a silent stream open: `: keepalive <unix seconds>`. */
export function sseKeepalive(nowMs: number): string {
  return `: keepalive ${Math.floor(nowMs / 1000)}\n\n`
}

export type SseFrame = { readonly event: string | null; readonly data: string; readonly id: string | null }

/**
 * Cuts server-sent events out of a text stream (WHATWG HTML, section 9.2).
 *
 * Feed it decoded text in pieces of any size; it yields whole events. LF, CRLF and CR end a line; comments are dropped.
 */
export class SseParser {
  #rest = ''
  /** The end of what was read: a blank line may be cut anywhere. */
  #tail = ''

  /** How many characters of an event that has not ended are kept. */
  get pending(): number {
    return this.#rest.length
  }

  push(text: string): SseFrame[] {
    // A large event comes in many pieces, so only what is new is searched.
    const fresh = this.#tail + text
    this.#tail = fresh.slice(-3)
    this.#rest += text
    const frames: SseFrame[] = []
    if (!BLANK_LINE.test(fresh)) return frames
    for (;;) {
      const end = BLANK_LINE.exec(this.#rest)
      if (!end) return frames
      const frame = parseFrame(this.#rest.slice(0, end.index))
      this.#rest = this.#rest.slice(end.index + end[0].length)
      if (frame) frames.push(frame)
    }
  }
}

const BLANK_LINE = /\r\n\r\n|\n\n|\r\r/

function parseFrame(block: string): SseFrame | undefined {
  let event: string | null = null
  let id: string | null = null
  const data: string[] = []
  for (const line of block.split(/\r\n|\n|\r/)) {
    const colon = line.indexOf(':')
    if (colon === 0) continue
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'event') event = value
    else if (field === 'data') data.push(value)
    else if (field === 'id') id = value
  }
  return data.length === 0 ? undefined : { event, data: data.join('\n'), id }
}
