import { request } from 'undici'
import { isException } from './address-policy.ts'
import { checkUrl, peerOf, type UrlRules } from './check-url.ts'
import type { GuardedDispatcher } from './guarded-dispatcher.ts'

/** An attempt is over after this long. */
export const RECEIVER_TIMEOUT_MS = 15_000

/**
 * Checks an address that a caller wants to be notified at: https, and plain http only for peers that the operator has named.
 *
 * @throws EgressError `invalid_url`, `unsupported_scheme` or `blocked`.
 */
export function checkReceiver(text: string, rules: Omit<UrlRules, 'schemes'>): URL {
  const url = URL.parse(text)
  const isNamed = url !== null && isException(rules.policy, peerOf(url))
  return checkUrl(text, { ...rules, schemes: isNamed ? ['https', 'http'] : ['https'] })
}

type Posted = { readonly headers: Readonly<Record<string, string>>; readonly body: string }

/**
 * Posts to an address that a caller has given and that was checked. No redirect is followed, and the body of the answer is not
 * read.
 *
 * @returns The status of the answer, which has to come within 15 seconds. @throws Error there is none.
 */
export async function postToReceiver(
  url: URL,
  dispatcher: GuardedDispatcher,
  { headers, body }: Posted,
): Promise<number> {
  const response = await request(url, {
    method: 'POST',
    dispatcher,
    headers: { 'user-agent': 'Bureau', ...headers },
    body,
    signal: AbortSignal.timeout(RECEIVER_TIMEOUT_MS),
  })
  response.body.on('error', () => {}).destroy()
  return response.statusCode
}

/** Whether a receiver has taken what it was sent. */
export const isDelivered = (status: number | null): boolean => status !== null && status >= 200 && status < 300
