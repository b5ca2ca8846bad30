import { describe, expect, test } from 'vitest'
import { browserCookie, expiredBrowserCookie, isBeginningBrowser, startUrlOf } from './sign-in-browser.ts'

const flow = (redirectUri: string, state = 'state-1') => ({
  state,
  authUrl: `https://login.example/authorize?redirect_uri=${encodeURIComponent(redirectUri)}&state=${state}`,
})
const HOSTED = flow('https://api.example.com/auth/callback')
const LOCAL = flow('http://localhost:8000/auth/callback')

const pairOf = (setCookie: string): string => setCookie.split(';')[0]!

test.each([
  ['https://api.example.com/auth/callback', 'https://api.example.com/auth/start/s%2F1'],
  ['https://api.example.com/agents/auth/callback', 'https://api.example.com/agents/auth/start/s%2F1'],
  ['https://app.example.com/oauth/return', 'https://app.example.com/auth/start/s%2F1'],
  ['http://localhost:8000/auth/callback', 'http://localhost:8000/auth/start/s%2F1'],
])('beside the callback %s the page is %s', (redirectUri, page) => {
  expect(startUrlOf(redirectUri, 's/1')).toBe(page)
})

describe('the cookie', () => {
  test('is one that no other host can set, and no script can read; without TLS it has another name', () => {
    expect(browserCookie(HOSTED)).toMatch(
      /^__Host-bureau-sign-in-[\w-]{16}=[\w-]{43}; Max-Age=900; Path=\/; HttpOnly; SameSite=Lax; Secure$/,
    )
    expect(browserCookie(LOCAL)).toMatch(
      /^bureau-sign-in-[\w-]{16}=[\w-]{43}; Max-Age=900; Path=\/; HttpOnly; SameSite=Lax$/,
    )
    expect(browserCookie(HOSTED)).not.toContain('state-1')
    expect(expiredBrowserCookie(HOSTED)).toMatch(/^__Host-bureau-sign-in-[\w-]{16}=; Max-Age=0; Path=\/; .*Secure$/)
  })

  test('lets in the browser that has it, for its own sign-in only', () => {
    const cookies = `theme=dark; ${pairOf(browserCookie(HOSTED))}; other=1`
    expect(isBeginningBrowser(HOSTED, cookies)).toBe(true)
    expect(isBeginningBrowser(flow('https://api.example.com/auth/callback', 'state-2'), cookies)).toBe(false)
    // The name that any host of the domain can set counts for nothing where there is TLS.
    expect(isBeginningBrowser(HOSTED, pairOf(browserCookie(LOCAL)))).toBe(false)
    expect(isBeginningBrowser(HOSTED, pairOf(expiredBrowserCookie(HOSTED)))).toBe(false)
    for (const none of [undefined, '', 'x']) expect(isBeginningBrowser(HOSTED, none)).toBe(false)
  })
})
