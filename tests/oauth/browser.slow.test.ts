import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ChatRequest, signInAt, startFrontEnd } from './support/chat-window.ts'
import { canBrowse, launchChromium } from '../support/chromium.ts'
import { asUser, startOAuthSetUp } from './support/oauth-set-up.ts'

const asAda = (serverUrl: string): ChatRequest => ({
  url: `${serverUrl}/solo/get_response_stream`,
  headers: asUser('ada'),
  body: { message: 'read my notes' },
})

describe.skipIf(!canBrowse)('the sign-in in a real browser', () => {
  let browser: Browser

  beforeAll(async () => {
    browser = await launchChromium()
  })
  afterAll(() => browser?.close())

  test('redirect, login, consent, callback page, and the stream that goes on', async () => {
    const { server } = await startOAuthSetUp()
    const chat = await (await startFrontEnd()).open(browser, asAda(server.url))
    const provider = await chat.openProvider()
    await signInAt(provider, 'ada@idp')

    expect(await provider.title()).toBe('Signed in')
    expect(await provider.textContent('p')).toBe(
      'You are signed in to notes. You can close this window and go back to your conversation.',
    )
    // The policy lets its own style through: an unstyled page would have no coloured mark.
    const colour = await provider.evaluate("getComputedStyle(document.querySelector('.mark')).backgroundColor")
    expect(colour).toBe('rgb(31, 136, 61)')

    const log = await chat.ended()
    expect(log).toContain('"status":"authorized"')
    expect(log).toContain('Notes of ada@idp')
    expect(chat.problems).toEqual([])
  })

  test('a refused sign-in is explained, and the stream goes on', async () => {
    const { server } = await startOAuthSetUp()
    const chat = await (await startFrontEnd()).open(browser, asAda(server.url))
    const provider = await chat.openProvider()
    await provider.click('text=Cancel')
    await provider.waitForSelector('h1')
    expect(await provider.textContent('h1')).toBe('Not signed in')
    expect(await provider.textContent('p')).toContain('access_denied: End-User aborted interaction')

    expect(await chat.ended()).toContain('the sign-in was refused (access_denied)')
  })
})
