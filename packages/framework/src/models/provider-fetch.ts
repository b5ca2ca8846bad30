import { setTimeout as sleep } from 'node:timers/promises'
import { type Dispatcher, type RequestInit, fetch as undiciFetch } from 'undici'
import { limitedResponse } from '../limited-response.ts'
import { eventTooLarge, MAX_EVENT_SIZE } from './transport.ts'

const MAX_ATTEMPTS = 3
const MAX_RETRY_WAIT_MS = 10_000
/** Largest answer that is not a good one: clients read it whole, and a caller may have named its sender. */
const MAX_ERROR_BYTES = 1_048_576

/**
 * A `fetch` for clients of model providers: over the given dispatcher, without redirects, and with retries.
 *
 * Retries (twice, 0.5 s and 1 s, or as `retry-after` says up to 10 s) only while no good answer has begun. Redirects
 * are refused because `fetch` would send on key headers that it does not know.
 */
export function providerFetch(dispatcher: Dispatcher): typeof fetch {
  return async (url, init) => {
    const options = { ...init, dispatcher, redirect: 'error' } as RequestInit
    for (let attempt = 1; ; attempt++) {
      const answer = await undiciFetch(url as string, options).catch((error: unknown) => error as Error)
      const waitMs = retryAfterMs(answer) ?? 500 * 2 ** (attempt - 1)
      if (!isTransient(answer) || attempt === MAX_ATTEMPTS || waitMs > MAX_RETRY_WAIT_MS || init?.signal?.aborted) {
        if (answer instanceof Error) throw answer
        return answer.ok
          ? limitedResponse(answer, MAX_EVENT_SIZE, eventTooLarge)
          : limitedResponse(answer, MAX_ERROR_BYTES)
      }
      if (!(answer instanceof Error)) await answer.body?.cancel()
      await sleep(waitMs, undefined, { signal: init?.signal ?? undefined })
    }
  }
}

type Answer = Awaited<ReturnType<typeof undiciFetch>> | Error

function isTransient(answer: Answer): boolean {
  if (answer instanceof Error) return answer.name !== 'AbortError' && !/redirect/.test(String(answer.cause))
  return answer.status === 408 || answer.status === 429 || answer.status >= 500
}

function retryAfterMs(answer: Answer): number | undefined {
  if (answer instanceof Error) return undefined
  const header = answer.headers.get('retry-after')
  if (header === null) return undefined
  const waitMs = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now()
  return Number.isFinite(waitMs) ? Math.max(0, waitMs) : undefined
}
