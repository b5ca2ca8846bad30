import { describe, expect, test } from 'vitest'
import { soloAgency, startTestServer } from '../support/test-server.ts'
import { canBrowse, consoleBrowser, focused, misplaced } from './support/console-page.ts'

describe.skipIf(!canBrowse)('whoever works with the keyboard', () => {
  const open = consoleBrowser()

  test('is at the heading of the page after signing in, and of each that the search leads to', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'secret' } })
    const { page, complaints } = await open(server.url, { at: '/runs' })

    await page.getByLabel('Server token').fill('secret')
    await expect.poll(() => page.title()).toBe('Sign in to the server · Bureau')
    await page.keyboard.press('Enter')
    await expect.poll(() => focused(page)).toBe('h1 Runs')
    await expect.poll(() => page.title()).toBe('Runs · Bureau')
    const search = page.getByRole('combobox', { name: /^Search/ })
    await page.keyboard.press('Control+k')
    await search.fill('settings')
    await page.keyboard.press('Enter')
    await expect.poll(() => focused(page)).toBe('h1 Settings')
    await page.keyboard.press('Control+k')
    await search.waitFor()
    await page.keyboard.press('Escape')
    await search.waitFor({ state: 'detached' })
    await expect.poll(() => focused(page)).toBe('h1 Settings')
    await page.getByRole('link', { name: 'Inbox' }).press('Enter')
    await expect.poll(() => focused(page)).toBe('h1 Inbox')

    await expect.poll(() => page.title()).toBe('Inbox · Bureau')
    expect(complaints).toEqual([])
  })

  test('opens an agent of the graph with Enter, closes it with Escape, and is back at it', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url, { at: '/graph' })
    const agent = page.getByRole('group', { name: 'Agent Solo' })
    const detail = page.getByRole('region', { name: 'Agent Solo' })

    await agent.focus()
    for (const key of ['Enter', 'Space']) {
      await page.keyboard.press(key)
      await detail.waitFor()
      await expect.poll(() => focused(page)).toBe('section Agent Solo')
      await page.keyboard.press('Escape')
      await detail.waitFor({ state: 'detached' })
      expect(await focused(page)).toBe('div Agent Solo')
    }
    await agent.click()
    await detail.getByRole('button', { name: 'Close' }).click()
    await agent.click()
    await detail.waitFor()
  })

  test('closes the navigation of a phone with Escape, and is back at its button; going on to the page closes it too', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const phone = { viewport: { width: 390, height: 844 } }
    const { page, barriers } = await open(server.url, { at: '/runs', ...phone })
    const pages = page.getByRole('navigation', { name: 'Pages' })

    await page.getByRole('button', { name: 'Navigation' }).press('Enter')
    await pages.getByRole('link', { name: 'Inbox' }).focus()
    expect(await barriers()).toEqual([])
    await page.keyboard.press('Escape')
    await pages.waitFor({ state: 'hidden' })
    expect(await focused(page)).toBe('button Navigation')

    await page.keyboard.press('Enter')
    await pages.getByRole('button', { name: 'Theme' }).press('Enter')
    await page.getByRole('menuitem', { name: 'Dark' }).click()
    await expect.poll(() => focused(page)).toBe('button Theme')
    await page.keyboard.press('Tab')
    await pages.waitFor({ state: 'hidden' })
    expect(await focused(page)).toBe('input Find')
  })

  test.each([390, 1280])('finds the way back from an address that leads nowhere, at %d pixels', async (width) => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page, barriers } = await open(server.url, { at: '/nowhere', viewport: { width, height: 760 } })

    await page.getByRole('heading', { name: 'There is no such page', level: 1 }).waitFor()
    expect(await misplaced(page)).toEqual([])
    expect(await barriers()).toEqual([])
    await page.getByRole('link', { name: 'To the first page' }).press('Enter')

    await expect.poll(() => focused(page)).toBe('h1 Playground')
    await expect.poll(() => page.title()).toBe('Playground · Bureau')
  })
})
