import { describe, expect, test } from 'vitest'
import { startPlatform } from '../platform/support/test-platform.ts'
import { closeAfterTest, soloAgency, startTestServer } from '../support/test-server.ts'
import { canBrowse, consoleBrowser } from './support/console-page.ts'

describe.skipIf(!canBrowse)('the guide in the console', () => {
  const open = consoleBrowser()

  test('lists every page of the documents, opens them, and follows their links and anchors', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page, barriers, complaints } = await open(server.url)

    await page.getByRole('link', { name: 'Guide' }).click()
    await page.getByRole('heading', { name: 'Writing agencies' }).waitFor()
    expect(await barriers()).toEqual([])
    await page.getByRole('link', { name: 'Console', exact: true }).click()
    await page.getByRole('heading', { name: 'Console', level: 1 }).waitFor()
    expect(await barriers()).toEqual([])
    await page.getByRole('link', { name: 'outlive the page' }).click()
    await page.getByRole('heading', { name: 'Streams', level: 1 }).waitFor()
    const heading = page.getByRole('heading', { name: 'Leaving and coming back' })
    await expect.poll(async () => (await heading.boundingBox())?.y ?? 9_999).toBeLessThan(200)
    await page.goto(`${server.url}/console/#/guide/examples/README.md`)
    await page.getByRole('heading', { name: 'Examples', level: 1 }).waitFor()

    expect(complaints).toEqual([])
  })

  test('finds sections by words, also half written ones, on a phone', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page, barriers, complaints } = await open(server.url, {
      at: '/guide',
      viewport: { width: 360, height: 720 },
      colorScheme: 'dark',
    })

    await page.getByRole('searchbox', { name: 'Search the guide' }).fill('leaving coming ba')
    const found = page.getByRole('list', { name: 'Found' })
    await found.getByRole('link', { name: 'Streams: Leaving and coming back' }).waitFor()
    expect(await barriers()).toEqual([])
    await page.getByRole('searchbox', { name: 'Search the guide' }).fill('zzzzzz qqqqqq')
    await page.getByText('Nothing in the guide has these words.').waitFor()
    await page.getByRole('searchbox', { name: 'Search the guide' }).fill('leaving coming')
    await found.getByRole('link', { name: 'Streams: Leaving and coming back' }).click()
    await page.getByRole('heading', { name: 'Streams', level: 1 }).waitFor()

    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    expect(complaints).toEqual([])
  })

  test('needs the token of a server, and nothing of the platform alone', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right-token' } })
    const platform = await startPlatform('pglite')
    closeAfterTest(() => platform.close())
    const closed = await open(server.url, { at: '/guide' })
    const free = await open(platform.url, { at: '/guide/errors.md' })

    await closed.page.getByLabel('Server token').fill('right-token')
    await closed.page.getByRole('button', { name: 'Sign in' }).click()
    await closed.page.getByRole('heading', { name: 'Writing agencies' }).waitFor()
    await free.page.getByRole('heading', { name: 'Errors', level: 1 }).waitFor()

    expect([closed.complaints, free.complaints]).toEqual([[], []])
  })

  test('says that a page is not there, and that the server is not', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url, { at: '/guide/no-such-page.md' })

    await page.getByText('There is no such page in the guide.').waitFor()
    await page.route('**/guide/*', (route) => route.abort())
    await page.goto(`${server.url}/console/#/guide/errors.md`)
    await page.getByText('The server cannot be reached.', { exact: true }).waitFor()
    await page.unroute('**/guide/*')
    await page.getByRole('button', { name: 'Try again', exact: true }).click()
    await page.getByRole('heading', { name: 'Errors', level: 1 }).waitFor()

    await expect.poll(() => page.getByText('The server cannot be reached.').count()).toBe(0)
  })
})
