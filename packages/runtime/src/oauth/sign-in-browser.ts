import type { Authorize } from '@bureau/framework'
import { FLOW_LIFETIME_MS, type NewFlow } from './oauth-state-registry.ts'
import { stateDigest } from './state-digest.ts'
import type { CallbackAnswer } from './answer-callback.ts'

/**
 * Ties a sign-in to the browser in which it is begun: users go to a page of ours first, whose click sets a cookie, and the
 * callback demands it. Otherwise anybody could have others sign in for them, by sending them the provider's address
 * (RFC 9700, section 4.7.1; RFC 6749, section 10.12).
 */

const CALLBACK_PATH = /\/auth\/callback$/

/** Where the page is: beside the callback, because cookies belong to a host. */
export function startUrlOf(redirectUri: string, state: string): string {
  const { origin, pathname } = new URL(redirectUri)
  const prefix = CALLBACK_PATH.test(pathname) ? pathname.replace(CALLBACK_PATH, '') : ''
  return `${origin}${prefix}/auth/start/${encodeURIComponent(state)}`
}

/** Sends users to the page instead of the provider. */
export function throughStartPage(authorize: Authorize): Authorize {
  return (request) => {
    const startUrl = startUrlOf(redirectUriOf(request.authorizationUrl.href), request.state)
    return authorize({
      ...request,
      emit: (event) => request.emit(event.type === 'oauth.redirect' ? { ...event, auth_url: startUrl } : event),
    })
  }
}

type Begun = Pick<NewFlow, 'state' | 'authUrl'>

/** The `Set-Cookie` of the page. */
export function browserCookie(flow: Begun): string {
  const { name, value, attributes } = cookieOf(flow)
  return [`${name}=${value}`, `Max-Age=${FLOW_LIFETIME_MS / 1_000}`, ...attributes].join('; ')
}

/** The `Set-Cookie` that takes the cookie away, once it is not needed any more. */
export function expiredBrowserCookie(flow: Begun): string {
  const { name, attributes } = cookieOf(flow)
  return [`${name}=`, 'Max-Age=0', ...attributes].join('; ')
}

/** Whether the browser that sends these cookies is one in which the sign-in was begun. */
export function isBeginningBrowser(flow: Begun, cookies: string | undefined): boolean {
  const { name, value } = cookieOf(flow)
  return (cookies ?? '').split(';').some((cookie) => cookie.trim() === `${name}=${value}`)
}

/** The answer to a browser without the cookie. The sign-in stays open: a stranger must not be able to end it. */
export const ANOTHER_BROWSER: CallbackAnswer = {
  result: { detail: 'OAuth callback failed: browser_mismatch' },
  title: 'Not signed in',
  text:
    'This sign-in was not begun in this browser, or it keeps no cookies. ' +
    'Open the link of your conversation here, and go on from there.',
}

/**
 * One cookie for each sign-in, because there may be several at once. `__Host-` lets no other host set it; browsers refuse
 * it without TLS, as on a developer's machine.
 */
function cookieOf({ state, authUrl }: Begun): { name: string; value: string; attributes: string[] } {
  const value = stateDigest(state)
  const name = `bureau-sign-in-${value.slice(0, 16)}`
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Lax']
  const isEncrypted = redirectUriOf(authUrl).startsWith('https:')
  return isEncrypted
    ? { name: `__Host-${name}`, value, attributes: [...attributes, 'Secure'] }
    : { name, value, attributes }
}

/** Where a provider sends the browser back to. */
function redirectUriOf(authUrl: string): string {
  const redirectUri = new URL(authUrl).searchParams.get('redirect_uri')
  if (redirectUri === null) throw new Error('the address of an identity provider names no redirect_uri')
  return redirectUri
}
