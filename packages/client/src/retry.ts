import { BureauError } from './error.ts'
import { addressOf, type Call, type Connection, lost, notWanted, send } from './send.ts'
import { onWake } from './wake.ts'

type Retrying = {
  /** How long to wait before each further attempt, in milliseconds; a random part of it is left out. */
  readonly delaysMs: readonly number[]
  /** Default: whatever may go well later. */
  readonly mayRetry?: (error: BureauError) => boolean
  readonly signal?: AbortSignal | undefined
}

/** Nobody waits longer than this for a server that is at its limit. */
const MAX_RETRY_AFTER_MS = 60_000

/** A connection that lasted for so long is as good as one that brought something new: runs may be silent for minutes. */
export const LASTING_MS = 10_000

/**
 * Attempts something until it succeeds. `progress` says that an attempt came further than all before it: the delays then
 * begin anew.
 *
 * @throws What the last attempt threw.
 */
export async function retrying<Result>(
  attempt: (progress: () => void) => Promise<Result>,
  { delaysMs, mayRetry = ({ retryable }) => retryable, signal }: Retrying,
): Promise<Result> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await attempt(() => (failures = 0))
    } catch (error) {
      const delayMs = delaysMs[failures]
      if (!(error instanceof BureauError) || delayMs === undefined || signal?.aborted || !mayRetry(error)) throw error
      const askedMs = error.retryAfterMs ?? 0
      if (askedMs > MAX_RETRY_AFTER_MS) throw error
      // What a page without a network has attempted does not count once it wakes up.
      await pause(Math.max(askedMs, delayMs * (0.5 + Math.random() / 2)), () => (failures = -1), signal)
    }
  }
}

export type Asking = {
  readonly connection: Connection
  readonly retryDelaysMs: readonly number[]
  /** How long an answer may take, in milliseconds. */
  readonly silenceMs: number
}

const DELAYS_MS = [100, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 30_000, 30_000]
const SILENCE_MS = 40_000

type Options = Omit<Connection, 'url'> & {
  readonly url: string | URL
  readonly retryDelaysMs?: readonly number[] | undefined
  readonly silenceMs?: number | undefined
}

/** @throws TypeError `url` is no address. */
export function askingOf(options: Options): Asking {
  const { url, retryDelaysMs = DELAYS_MS, silenceMs = SILENCE_MS } = options
  try {
    addressOf(url)
  } catch {
    throw new TypeError('url must be an address.')
  }
  return { connection: { ...options, url: String(url).replace(/\/+$/, '') }, retryDelaysMs, silenceMs }
}

/**
 * Asks for JSON, again and again when the answer is lost: for what does no harm when it is done twice.
 *
 * @throws BureauError
 */
export function ask<Answer>({ connection, retryDelaysMs, silenceMs }: Asking, call: Call): Promise<Answer> {
  const attempt = async (): Promise<Answer> => {
    const response = await send(connection, call, AbortSignal.timeout(silenceMs))
    const text = await response.text().catch(lost)
    try {
      return JSON.parse(text) as Answer
    } catch (cause) {
      throw notWanted(response, 'JSON', cause)
    }
  }
  return retrying(attempt, { delaysMs: retryDelaysMs })
}

/** Ends early when the page wakes up, which is `woken`, or the signal aborts. */
async function pause(ms: number, woken: () => void, signal?: AbortSignal): Promise<void> {
  let end = (): void => {}
  const ended = new Promise<void>((resolve) => (end = resolve))
  const timer = setTimeout(end, ms)
  const off = onWake(() => {
    woken()
    end()
  })
  signal?.addEventListener('abort', end)
  await ended
  clearTimeout(timer)
  signal?.removeEventListener('abort', end)
  off()
}
