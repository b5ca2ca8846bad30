import { errors, request, type Dispatcher } from 'undici'
import type { ByteBudget } from './byte-budget.ts'
import { checkUrl, type UrlRules } from './check-url.ts'
import { EgressError } from './egress-error.ts'
import type { GuardedDispatcher } from './guarded-dispatcher.ts'

export type SafeFetchOptions = {
  readonly dispatcher: GuardedDispatcher
  readonly schemes: UrlRules['schemes']
  readonly ports?: readonly number[]
  /** Largest body in bytes, counted as they arrive. */
  readonly maxBytes: number
  /** A limit shared with other transfers. */
  readonly budget?: ByteBudget
  /** Redirects to follow; each is checked like the first URL. Default 3; with 0 a redirect is a failure. */
  readonly maxRedirects?: number
  /** Longest wait for each response head. Default 10,000. */
  readonly headersTimeoutMs?: number
  /** Longest time for everything, redirects and body included. Default 60,000. */
  readonly totalTimeoutMs?: number
  /** From when on the download must not be too slow. Default 10,000. */
  readonly minRateAfterMs?: number
  readonly signal?: AbortSignal
}

const HEADERS = { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'Bureau' }
const MIN_BYTES_PER_SECOND = 10 * 1024
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const TIMEOUTS = [errors.ConnectTimeoutError, errors.HeadersTimeoutError, errors.BodyTimeoutError]

/**
 * Downloads a URL that came from outside into memory.
 *
 * The only way to fetch such a URL: its peer and that of every redirect is checked, no cookie or credential is sent,
 * a compressed body is refused, and only status 200 counts.
 *
 * @throws EgressError with one of its reasons.
 * @throws The reason of `signal` when it aborts.
 */
export async function safeFetch(url: string, options: SafeFetchOptions): Promise<Uint8Array> {
  const expired = new AbortController()
  const expire = (message: string): void => expired.abort(new EgressError('timeout', message))
  const total = setTimeout(expire, options.totalTimeoutMs ?? 60_000, 'The download took too long.')
  const signal = AbortSignal.any([expired.signal, ...(options.signal ? [options.signal] : [])])
  try {
    return await receive(await followRedirects(url, options, signal), options, expire)
  } catch (error) {
    options.signal?.throwIfAborted()
    throw asEgressError(error)
  } finally {
    clearTimeout(total)
  }
}

async function followRedirects(
  start: string,
  options: SafeFetchOptions,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  const { dispatcher, maxRedirects = 3 } = options
  const rules: UrlRules = { ...options, policy: dispatcher.policy }
  let url = checkUrl(start, rules)
  for (let redirects = 0; ; redirects++) {
    // The silence within a body is bounded by the average rate and the total time.
    const limits = { headersTimeout: options.headersTimeoutMs ?? 10_000, bodyTimeout: 0 }
    const response = await request(url, { dispatcher, headers: HEADERS, signal, ...limits })
    const location = headerOf(response, 'location')
    if (REDIRECTS.has(response.statusCode) && location !== undefined && redirects < maxRedirects) {
      discard(response)
      url = checkRedirect(new URL(location, url), rules)
      continue
    }
    requirePlainSuccess(response)
    return response
  }
}

function checkRedirect(target: URL, rules: UrlRules): URL {
  try {
    return checkUrl(target.href, rules)
  } catch (error) {
    const detail = error instanceof EgressError ? error.message : undefined
    throw new EgressError('blocked', 'The server redirects to an address that is not allowed.', {
      cause: error,
      ...(detail !== undefined && { detail }),
    })
  }
}

function requirePlainSuccess(response: Dispatcher.ResponseData): void {
  const encoding = headerOf(response, 'content-encoding') ?? 'identity'
  const transfer = headerOf(response, 'transfer-encoding') ?? 'chunked'
  if (response.statusCode !== 200) {
    discard(response)
    const { statusCode: status } = response
    throw new EgressError('failed', `The server answered with status ${status}.`, { status })
  }
  if (encoding.toLowerCase() !== 'identity' || transfer.toLowerCase() !== 'chunked') {
    discard(response)
    throw new EgressError('failed', 'The server sent a compressed body, which is not accepted.')
  }
}

async function receive(
  { body, headers }: Dispatcher.ResponseData,
  options: SafeFetchOptions,
  expire: (message: string) => void,
): Promise<Uint8Array> {
  const { maxBytes, budget, minRateAfterMs = 10_000 } = options
  const startedAt = performance.now()
  const chunks: Uint8Array[] = []
  let sizeBytes = 0
  const checkRate = (): void => {
    const elapsedMs = performance.now() - startedAt
    if (elapsedMs < minRateAfterMs || (sizeBytes * 1000) / elapsedMs >= MIN_BYTES_PER_SECOND) return
    expire('The download was too slow.')
  }
  const rateTimer = setInterval(checkRate, Math.min(1_000, minRateAfterMs))
  try {
    if (Number(headers['content-length'] ?? 0) > maxBytes) throw tooLarge()
    for await (const chunk of body as AsyncIterable<Uint8Array>) {
      sizeBytes += chunk.byteLength
      if (sizeBytes > maxBytes || budget?.take(chunk.byteLength) === false) throw tooLarge()
      chunks.push(chunk)
    }
    return Buffer.concat(chunks)
  } catch (error) {
    discard({ body })
    throw error
  } finally {
    clearInterval(rateTimer)
  }
}

/** Closes the connection instead of reading a body that nobody wants. */
function discard({ body }: Pick<Dispatcher.ResponseData, 'body'>): void {
  body.on('error', () => {}).destroy()
}

function headerOf({ headers }: Dispatcher.ResponseData, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value.join(', ') : value
}

function tooLarge(): EgressError {
  return new EgressError('too_large', 'The download is too large.')
}

function asEgressError(error: unknown): EgressError {
  if (error instanceof EgressError) return error
  const { name, code, message } = error as NodeJS.ErrnoException
  const detail = [name, code, message].filter(Boolean).join(' ')
  if (TIMEOUTS.some((timeout) => error instanceof timeout)) {
    return new EgressError('timeout', 'The server did not answer in time.', { detail, cause: error })
  }
  return new EgressError('failed', 'The download failed.', { detail, cause: error })
}
