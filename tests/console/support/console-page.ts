import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll } from 'vitest'
import { buildConsoleIfOld } from '../../../scripts/build-console.ts'
import { launchChromium } from '../../support/chromium.ts'
import { closeAfterTest } from '../../support/test-server.ts'

export { canBrowse } from '../../support/chromium.ts'

/** For what has to appear, on a machine that is busy. */
const PATIENCE_MS = 90_000

const AXE = path.resolve(import.meta.dirname, '../../../node_modules/axe-core/axe.min.js')

type ConsolePage = {
  readonly page: Page
  /** Errors and warnings, broken policies, and requests to other servers. */
  readonly complaints: string[]
  /** What axe finds serious on what is shown now. */
  readonly barriers: () => Promise<string[]>
}

type OpenOptions = BrowserContextOptions & {
  /** Where in the console, e.g. `/runs`. */
  readonly at?: string
  /** What somebody has signed in with before. */
  readonly signedIn?: Readonly<Record<string, string>>
}

/** A browser for all tests of a block, with the console as it is built from the sources. */
export function consoleBrowser(
  more: readonly string[] = [],
): (url: string, options?: OpenOptions) => Promise<ConsolePage> {
  let browser: Browser
  beforeAll(async () => {
    await buildConsoleIfOld()
    browser = await launchChromium(more)
  })
  afterAll(() => browser?.close())
  return (url, options = {}) => openConsole(browser, url, options)
}

async function openConsole(
  browser: Browser,
  url: string,
  { at = '/', signedIn, ...options }: OpenOptions,
): Promise<ConsolePage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
  context.setDefaultTimeout(PATIENCE_MS)
  closeAfterTest(() => context.close())
  // The policy of the page forbids all scripts but its own, those of the test too.
  await context.addInitScript({ path: AXE })
  await context.addInitScript(WATCH_POLICY)
  const kept = JSON.stringify(JSON.stringify(signedIn ?? {}))
  if (signedIn) await context.addInitScript(`sessionStorage.setItem('bureau:credentials:${url}', ${kept})`)
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('console', (line) => {
    if (line.type() === 'error' || line.type() === 'warning') complaints.push(line.text())
  })
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !/^(?:data|blob):/.test(request.url())) complaints.push(request.url())
  })
  await page.goto(`${url}/console/#${at}`)
  return { page, complaints, barriers: () => barriersOf(page) }
}

const WATCH_POLICY = `document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
  console.error('policy: ' + violatedDirective + ' ' + blockedURI)
})`

/** Sends a message in the playground. */
export async function say(page: Page, words: string): Promise<void> {
  await page.getByRole('textbox', { name: 'Message' }).fill(words)
  await page.keyboard.press('Enter')
}

/** The last message that is just these words is there. */
export const answered = (page: Page, words: string): Promise<void> =>
  page.getByText(words, { exact: true }).last().waitFor()

/** What has the focus: its element and its name. */
export const focused = (page: Page): Promise<string> =>
  page.evaluate<string>(`(({ localName, ariaLabel, textContent }) =>
    localName === 'body' ? localName : localName + ' ' + (ariaLabel ?? textContent))(document.activeElement)`)

const STRUCTURE = ['heading-order', 'landmark-unique', 'page-has-heading-one', 'region']

/** What axe finds of what lies outside of landmarks, has the name of another, or skips a level of headings. */
export const misplaced = async (page: Page): Promise<string[]> =>
  described(
    await page.evaluate<readonly Violation[]>(
      `axe.run({ runOnly: ${JSON.stringify(STRUCTURE)} }).then(({ violations }) => violations)`,
    ),
  )

type Violation = { readonly id: string; readonly impact: string; readonly nodes: readonly { readonly html: string }[] }

async function barriersOf(page: Page): Promise<string[]> {
  const violations = await page.evaluate<readonly Violation[]>('axe.run().then(({ violations }) => violations)')
  return described(violations.filter(({ impact }) => impact === 'serious' || impact === 'critical'))
}

const described = (violations: readonly Violation[]): string[] =>
  violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))

/** Tables that are wider than what surrounds them, by their labels. */
export const tablesThatAreCut = (page: Page): Promise<string[]> =>
  page.evaluate(`[...document.querySelectorAll('[role=region]:has(table)')]
    .filter((region) => region.scrollWidth > region.clientWidth).map((region) => region.getAttribute('aria-label'))`)

/** The bytes of a file of the repository. */
export const repositoryFile = (name: string): Promise<Buffer> =>
  readFile(path.resolve(import.meta.dirname, '../../..', name))

/** Carries the first POST to `address` out, but loses its answer; all later ones get theirs. */
export async function loseFirstAnswer(page: Page, address: string): Promise<void> {
  let posted = 0
  await page.route(address, async (route) => {
    if (route.request().method() !== 'POST' || posted++ > 0) return route.continue()
    await route.fetch()
    await route.abort()
  })
}
