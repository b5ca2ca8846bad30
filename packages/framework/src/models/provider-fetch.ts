import { type Dispatcher, type RequestInit, fetch as undiciFetch } from 'undici'
import { limitedResponse } from '../limited-response.ts'
import { eventTooLarge, MAX_EVENT_SIZE } from './model-error.ts'

/** Largest answer that is not a good one: clients read it whole, and a caller may have named its sender. */
const MAX_ERROR_BYTES = 1_048_576

/**
 * A `fetch` for clients of model providers: over the given dispatcher and without redirects, because `fetch` would send on
 * key headers that it does not know.
 */
export function providerFetch(dispatcher: Dispatcher): typeof fetch {
  return async (url, init) => {
    const answer = await undiciFetch(url as string, { ...init, dispatcher, redirect: 'error' } as RequestInit)
    return answer.ok ? limitedResponse(answer, MAX_EVENT_SIZE, eventTooLarge) : limitedResponse(answer, MAX_ERROR_BYTES)
  }
}
