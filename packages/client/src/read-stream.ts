import { type SseFrame, SseParser } from '@bureau/protocol/sse'
import { lost, notWanted } from './send.ts'
import { onWake } from './wake.ts'

/** Characters of a single frame: far more than a server sends. */
const MAX_FRAME_LENGTH = 2 ** 26

/**
 * Reads server-sent events to the end of the body, which need not be the end of the run. `heard` is called for whatever
 * arrives, comments included.
 *
 * @throws BureauError `connection_lost`, `not_a_stream`
 */
export async function* readStream(response: Response, heard: () => void): AsyncGenerator<SseFrame, void> {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream') || !response.body) {
    throw notWanted(response, 'a stream of events')
  }
  const parser = new SseParser()
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  for (;;) {
    const { done, value } = await reader.read().catch(lost)
    if (done) return
    heard()
    yield* parser.push(decoder.decode(value, { stream: true }))
    if (parser.pending > MAX_FRAME_LENGTH) throw notWanted(response, 'a stream of events')
  }
}

/** Servers send a comment after 15 s of silence. */
const EXPECTED_WITHIN_MS = 20_000

/**
 * Aborts an attempt once nothing was heard for `limitMs`, or for long enough when the page wakes up from its sleep; it listens as long
 * as the attempt goes on. Returns what is to be called for whatever is heard.
 */
export function watchSilence(limitMs: number, attempt: AbortController): () => void {
  let heardAt = Date.now()
  /** One timer for many frames: it asks again for as long as was heard since. */
  const check = (): void => {
    heardAt = Math.min(heardAt, Date.now()) // The clock may have been set back.
    const leftMs = heardAt + limitMs - Date.now()
    if (leftMs > 0) timer = setTimeout(check, leftMs)
    else attempt.abort()
  }
  let timer = setTimeout(check, limitMs)
  const off = onWake(() => {
    if (Date.now() - heardAt > EXPECTED_WITHIN_MS) attempt.abort()
  })
  attempt.signal.addEventListener('abort', () => {
    clearTimeout(timer)
    off()
  })
  return () => void (heardAt = Date.now())
}
