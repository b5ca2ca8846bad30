import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { signInAt, startFrontEnd } from '../oauth/support/chat-window.ts'
import { canBrowse, launchChromium } from '../support/chromium.ts'
import { startSignInPlatform } from './support/sign-in-platform.ts'

describe.skipIf(!canBrowse)('the sign-in on the platform, in a real browser', () => {
  let browser: Browser

  beforeAll(async () => {
    browser = await launchChromium()
  })
  afterAll(() => browser?.close())

  test('redirect, login, consent, callback page, and the stream that goes on', async () => {
    const frontEnd = await startFrontEnd()
    const { platform } = await startSignInPlatform('pglite', { config: { corsOrigins: [frontEnd.origin] } })
    const client = await platform.client()
    const chat = await frontEnd.open(browser, {
      url: `${platform.url}/get_completion_v2`,
      headers: { authorization: `Bearer ${client.token}` },
      body: client.completion({ consumerId: 'ada' }),
    })
    const provider = await chat.openProvider()
    expect(await provider.title()).toBe('Sign in to notes')
    await provider.click('text=Continue')
    await signInAt(provider, 'ada@idp')

    expect(await provider.title()).toBe('Signed in')
    const colour = await provider.evaluate("getComputedStyle(document.querySelector('.mark')).backgroundColor")
    expect(colour).toBe('rgb(31, 136, 61)')
    const log = await chat.ended()
    expect(log).toContain('"status":"authorized"')
    expect(log).toContain('Notes of ada@idp')
    expect(chat.problems).toEqual([])
  })
})
