import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { canBrowse, consoleBrowser, tablesThatAreCut } from './support/console-page.ts'
import { startTravelServer, type TravelServer, WEATHER_IN_PARIS } from './support/travel-server.ts'

type Shown = {
  /** Of its picture. */
  readonly name: string
  /** `{run}` and others are ids of the server. */
  readonly at: string
  /** What is done there before. */
  readonly act?: (page: Page, server: TravelServer) => Promise<void>
  readonly shows: string | RegExp
}

async function askForWeather(page: Page, { provider }: TravelServer): Promise<void> {
  provider.script(WEATHER_IN_PARIS)
  await page.getByRole('textbox', { name: 'Message' }).fill('What is the weather in Paris?')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Send again' }).last().waitFor()
}

async function compare(page: Page, { provider }: TravelServer): Promise<void> {
  await page.getByRole('button', { name: 'More about this chat' }).click()
  await page.getByRole('menuitem', { name: 'Compare with another' }).click()
  provider.script([text('It is sunny in Paris.'), text('It rains in Paris.')])
  await page.getByRole('textbox', { name: 'Message to both' }).fill('What is the weather in Paris?')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Send again' }).nth(1).waitFor()
}

const click = (name: string) => (page: Page) => page.getByRole('button', { name }).first().click()

const PAGES: readonly Shown[] = [
  { name: 'playground', at: '/play/travel', act: askForWeather, shows: 'No umbrella is needed.' },
  { name: 'tools', at: '/play/travel?panel=tools', shows: 'Books a room.' },
  { name: 'events', at: '/play/travel?panel=events', act: askForWeather, shows: 'response.created' },
  { name: 'compare', at: '/play/travel', act: compare, shows: 'It rains in Paris.' },
  {
    name: 'integration',
    at: '/play/{integration}?on=platform&consumer=margaret',
    act: askForWeather,
    shows: 'No umbrella is needed.',
  },
  {
    name: 'graph',
    at: '/graph/travel',
    act: (page) => page.getByText('Weather').first().click(),
    shows: 'get_weather',
  },
  { name: 'runs', at: '/runs', shows: 'The model provider did not accept' },
  { name: 'run', at: '/runs/{run}', act: click('get_weather'), shows: 'It is 18 °C and sunny in Paris.' },
  { name: 'run-failed', at: '/runs/{failed}', shows: /Incorrect API key provided/ },
  { name: 'compare-runs', at: '/runs/{run}/compare/{other}', shows: 'differs' },
  { name: 'inbox', at: '/inbox', shows: 'book_hotel' },
  { name: 'chats', at: '/platform/chats', shows: 'ada-trip' },
  { name: 'chat', at: '/platform/chats/{chat}', shows: 'Concierge → Weather' },
  { name: 'platform-runs', at: '/platform/runs', shows: 'The model provider did not accept' },
  { name: 'platform-run', at: '/platform/runs/{platformRun}', shows: 'get_weather' },
  { name: 'usage', at: '/platform/usage', shows: 'Tokens in' },
  { name: 'members', at: '/platform/members?integration={integration}', shows: 'Ada Lovelace' },
  { name: 'member', at: '/platform/members/{integration}/ada', shows: '2 of 3' },
  { name: 'integrations', at: '/platform/integrations', shows: 'Travel desk' },
  {
    name: 'integration-new',
    at: '/platform/integrations',
    act: click('New integration'),
    shows: 'Tools about whose calls',
  },
  { name: 'keys', at: '/platform/keys', shows: 'Back end' },
  { name: 'key-new', at: '/platform/keys', act: click('New key'), shows: 'runs:approve' },
  { name: 'tokens', at: '/platform/tokens?integration={integration}', shows: 'margaret' },
  {
    name: 'token-new',
    at: '/platform/tokens?integration={integration}',
    act: click('New token'),
    shows: 'reads its own chats',
  },
  { name: 'webhooks', at: '/platform/webhooks', shows: 'https://hooks.example.com/bureau' },
  { name: 'webhook-new', at: '/platform/webhooks', act: click('New endpoint'), shows: 'run.approval_decided' },
  { name: 'files', at: '/platform/files?integration={integration}', shows: 'lisbon.md' },
  { name: 'audit', at: '/platform/audit', shows: 'webhook.created' },
  { name: 'owners', at: '/owners', shows: 'Travel Ltd' },
  { name: 'owner-keys', at: '/owners', act: click('Travel Ltd'), shows: 'API keys of Travel Ltd' },
  { name: 'guide', at: '/guide', shows: 'Writing agencies' },
  { name: 'guide-page', at: '/guide/console.md', shows: 'Signing in' },
  { name: 'settings', at: '/settings', shows: 'The platform is ready for requests.' },
]

/** `BUREAU_PICTURES=1` takes the pictures of the documents anew. */
const takesPictures = Boolean(process.env['BUREAU_PICTURES'])
const DOCUMENTS = path.resolve(import.meta.dirname, '../../docs')

const LOOKS = [
  { colorScheme: 'light', width: 1120, height: 760 },
  { colorScheme: 'dark', width: 1120, height: 760 },
  { colorScheme: 'light', width: 360, height: 720 },
  { colorScheme: 'light', width: 768, height: 1024 },
  // Records of other days say so, and take more room.
  { colorScheme: 'dark', width: 360, height: 720, daysLater: 20 },
] as const

describe.skipIf(!canBrowse)('every page of the console', () => {
  const open = consoleBrowser()
  let server: TravelServer
  beforeAll(async () => {
    server = await startTravelServer()
  })
  afterAll(() => server?.close())

  const address = (at: string): string =>
    at.replaceAll(/\{(\w+)\}/g, (_all, name) => server.ids[name as keyof TravelServer['ids']])

  test.each(LOOKS)(
    'fits into $width pixels in $colorScheme, without barriers, complaints or other servers',
    async ({ colorScheme, width, height, ...look }) => {
      const viewport = { width, height }
      const { page, barriers, complaints } = await open(server.url, {
        signedIn: server.signedIn,
        viewport,
        colorScheme,
      })
      if ('daysLater' in look) await page.clock.setSystemTime(Date.now() + look.daysLater * 86_400_000)
      const faults: unknown[] = []

      for (const { name, at, act, shows } of PAGES) {
        const lacks = (error: Error): void => void faults.push({ name, fault: error.message })
        await page.goto(`${server.url}/console/#${address(at)}`)
        await act?.(page, server).catch(lacks)
        await page.locator('main, [role=dialog]').getByText(shows).first().waitFor().catch(lacks)
        await page.locator('main').getByText('Loading …').first().waitFor({ state: 'detached' }).catch(lacks)
        const taken = await page.evaluate<number>('document.documentElement.scrollWidth')
        if (taken > width) faults.push({ name, fault: `is ${taken} pixels wide` })
        for (const table of await tablesThatAreCut(page)) faults.push({ name, fault: `its table ${table} is cut` })
        for (const choice of await choicesThatAreCut(page)) faults.push({ name, fault: `its choice ${choice} is cut` })
        for (const fault of [...(await barriers()), ...complaints.splice(0)]) faults.push({ name, fault })
        if (takesPictures && width > 768) await takePicture(page, colorScheme === 'dark' ? `${name}-dark` : name)
      }

      expect(faults).toEqual([])
    },
  )

  test('the bar above a chat is one line on a tablet, however long the names are that could be chosen', async () => {
    const viewport = { width: 768, height: 1024 }
    const { page } = await open(server.url, { signedIn: server.signedIn, viewport, at: '/play/travel' })
    const agency = page.getByRole('combobox', { name: 'Agency' })
    await agency.getByRole('option').nth(1).waitFor({ state: 'attached' })

    const { y, height } = (await agency.boundingBox())!
    const last = (await page.getByRole('button', { name: 'More about this chat' }).boundingBox())!
    expect(last.y).toBeLessThan(y + height)
  })

  test('is in the documents, light and dark', async () => {
    const text = await readFile(path.join(DOCUMENTS, 'console-pictures.md'), 'utf8')
    const pictures = text.match(/(?<=\(console\/)[\w-]+(?=\.webp\))/g)

    expect(pictures).toEqual(PAGES.flatMap(({ name }) => [name, `${name}-dark`]))
  })
})

/** Choices that are narrower than the text that they show, by their labels. */
const choicesThatAreCut = (page: Page): Promise<string[]> =>
  page.evaluate(`[...document.querySelectorAll('main select')].filter((select) => {
    const whole = select.cloneNode(true)
    whole.value = select.value
    whole.style = 'position: absolute; width: max-content; max-width: none'
    select.after(whole)
    const isCut = whole.offsetWidth > select.offsetWidth
    whole.remove()
    return isCut
  }).map((select) => select.getAttribute('aria-label'))`)

async function takePicture(page: Page, name: string): Promise<void> {
  const browser = await page.context().newCDPSession(page)
  const { data } = await browser.send('Page.captureScreenshot', { format: 'webp', quality: 90 })
  await writeFile(path.join(DOCUMENTS, 'console', `${name}.webp`), Buffer.from(data, 'base64'))
}
