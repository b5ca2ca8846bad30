import { setTimeout as sleep } from 'node:timers/promises'
import type { ModelError } from './model-error.ts'

const MAX_ATTEMPTS = 3
const MAX_RETRY_WAIT_MS = 10_000

/** A model request that failed in passing, before anything of the answer had arrived. */
export class RetryableError extends Error {
  override readonly cause: ModelError
  readonly retryAfterMs: number | undefined

  constructor(cause: ModelError, retryAfterMs?: number) {
    super(cause.message)
    this.cause = cause
    this.retryAfterMs = retryAfterMs
  }
}

/**
 * Makes a model request, again (twice, after 0.5 s and 1 s, or as `retry-after` says up to 10 s) while it fails with a
 * `RetryableError`.
 *
 * @throws the cause of the last `RetryableError`, any other error, or the reason of the signal.
 */
export async function withRetries<Answer>(signal: AbortSignal, request: () => Promise<Answer>): Promise<Answer> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await request()
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof RetryableError)) throw error
      const waitMs = error.retryAfterMs ?? 500 * 2 ** (attempt - 1)
      if (attempt === MAX_ATTEMPTS || waitMs > MAX_RETRY_WAIT_MS) throw error.cause
      await sleep(waitMs, undefined, { signal }).catch(() => signal.throwIfAborted())
    }
  }
}

export function isTransient({ code }: ModelError): boolean {
  return code === 'upstream_unavailable' || code === 'upstream_rate_limited'
}

/** `retry-after` in seconds or as an HTTP date (RFC 9110, section 10.2.3), in milliseconds from now. */
export function parseRetryAfter(header: string | string[] | undefined): number | undefined {
  if (typeof header !== 'string') return undefined
  const seconds = Number(header)
  const waitMs = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(header) - Date.now()
  return Number.isFinite(waitMs) ? Math.max(0, waitMs) : undefined
}

/** Does not wait for work that ignores its signal. */
export async function untilAborted<Value>(work: PromiseLike<Value>, signal: AbortSignal): Promise<Value> {
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
