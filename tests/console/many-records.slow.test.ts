import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { seedHistory } from '@bureau/platform/testing'
import type { Page, Route } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Served, startPlatform } from '../platform/support/test-platform.ts'
import { canBrowse, consoleBrowser } from './support/console-page.ts'

const RUNS = 10_000
const MEMBERS = 1_000
const MESSAGES = 5_000
const FILES = 10_000

type ListPage = {
  readonly at: string
  readonly label: string
  /** What is shown where there is nothing. */
  readonly empty?: string
  /** It has more than a page. */
  readonly isLong?: boolean
}

const LISTS: readonly ListPage[] = [
  { at: '/platform/chats', label: 'Chats', empty: 'No chats yet', isLong: true },
  { at: '/platform/runs', label: 'Runs', empty: 'No such runs', isLong: true },
  { at: '/platform/members?integration=INTEGRATION', label: 'Members', empty: 'No members yet', isLong: true },
  { at: '/platform/usage', label: 'Usage by day', empty: 'Nothing was spent in this time' },
  { at: '/platform/usage?group=consumer', label: 'Usage by consumer', empty: 'Nothing was spent in this time' },
  { at: '/platform/audit', label: 'Audit', isLong: true },
  { at: '/platform/keys', label: 'API keys' },
  { at: '/platform/webhooks', label: 'Webhook endpoints', empty: 'No webhooks yet' },
  { at: '/platform/integrations', label: 'Integrations' },
  { at: '/platform/files?integration=INTEGRATION', label: 'Files', empty: 'No files yet', isLong: true },
  {
    at: '/platform/tokens?integration=INTEGRATION',
    label: 'Revoked tokens',
    empty: 'No tokens were revoked',
    isLong: true,
  },
]

type Tenant = {
  readonly ownerId: string
  readonly integrationId: string
  readonly token: string
  readonly longChat: string
}

/** An owner with ten thousand runs in two thousand chats, ten thousand files, a thousand members, and a chat of five thousand messages. */
async function seed({ rows, dataFolder, ...platform }: Served): Promise<Tenant> {
  const { ownerId, key } = await platform.addTenant()
  const integrationId = await platform.addIntegration(ownerId, { memberAllowancesEnabled: true })
  await seedHistory(rows, { ownerId, integrationId, runs: RUNS })
  const folder = path.join(dataFolder, 'mounts', ownerId, integrationId, 'reports')
  mkdirSync(folder, { recursive: true })
  for (let n = 0; n < FILES; n++) writeFileSync(path.join(folder, `${n}.csv`), 'a,b\n')
  const id = (prefix: string): string => `'${prefix}_' || lpad(n::text, 26, 'x')`
  const owner = `'${ownerId}'`
  await rows(`INSERT INTO members (id, owner_id, integration_id, consumer_id, status, limit_messages, created_at)
    SELECT ${id('mem')}, ${owner}, '${integrationId}', 'consumer-' || n, 'active', 1000, now() - n * interval '1 minute'
    FROM generate_series(1, ${MEMBERS - RUNS / 100}) n`)
  await rows(`INSERT INTO audit_log (owner_id, actor, action, target) SELECT ${owner}, 'key_1', 'member.updated', 'consumer-' || n
    FROM generate_series(1, ${MEMBERS}) n`)
  await rows(`INSERT INTO webhook_endpoints (id, owner_id, url, events, secret_enc)
    SELECT ${id('whe')}, ${owner}, 'https://hooks.example.com/' || n, '{run.failed}', '' FROM generate_series(1, 15) n`)
  await rows(`INSERT INTO consumer_token_cutoffs (owner_id, integration_id, consumer_id, not_before)
    SELECT ${owner}, '${integrationId}', 'consumer-' || n, now() FROM generate_series(1, ${MEMBERS}) n`)
  const [chat] = await rows(
    `SELECT id, last_run_id FROM chats WHERE owner_id = ${owner} ORDER BY updated_at DESC LIMIT 1`,
  )
  const longChat = String(chat!['id'])
  await rows(`INSERT INTO messages (chat_id, seq, owner_id, run_id, id, role, item)
    SELECT '${longChat}', n, ${owner}, '${String(chat!['last_run_id'])}', ${id('msg')}, CASE WHEN n % 2 = 1 THEN 'user' ELSE 'assistant' END,
      CASE WHEN n % 2 = 1 THEN jsonb_build_object('type', 'message', 'role', 'user', 'content', 'Question ' || n, 'agent', 'CEO', 'callerAgent', null)
      ELSE jsonb_build_object('type', 'message', 'role', 'assistant', 'id', 'item-' || n, 'agent', 'CEO', 'callerAgent', null,
        'content', jsonb_build_array(jsonb_build_object('type', 'output_text', 'text', 'Answer ' || n))) END
    FROM generate_series(1, ${MESSAGES}) n`)
  await rows(`UPDATE chats SET next_seq = ${MESSAGES + 1} WHERE id = '${longChat}'`)
  return { ownerId, integrationId, token: key.token, longChat }
}

describe.skipIf(!canBrowse)('with ten thousand runs and files, a thousand members and thousands of chats', () => {
  const open = consoleBrowser()
  let platform: Served
  let tenant: Tenant
  beforeAll(async () => {
    platform = await startPlatform('pglite')
    tenant = await seed(platform)
  })
  afterAll(() => platform.close())

  const ofTenant = (at: string): string => at.replace('INTEGRATION', tenant.integrationId)
  const openAt = (at: string, options: object = {}) =>
    open(platform.url, { signedIn: { platform: tenant.token }, at: ofTenant(at), ...options })
  const table = (page: Page, label: string) => page.getByRole('region', { name: label, exact: true })
  const rowCount = async (page: Page, label: string): Promise<number> =>
    Number(await table(page, label).getByRole('table').getAttribute('aria-rowcount')) - 1

  test.each(LISTS)(
    '$at opens, scrolls by keyboard, and has its further pages',
    async ({ at, label, isLong = false }) => {
      const { page, complaints, barriers } = await openAt(at)
      await table(page, label).getByRole('row').nth(1).waitFor()

      expect(await barriers()).toEqual([])
      if (isLong) {
        expect(await rowCount(page, label)).toBe(100)
        await page.getByRole('button', { name: 'Load more' }).focus()
        await page.keyboard.press('Enter')
        await expect.poll(() => rowCount(page, label)).toBe(200)
      }
      const first = await table(page, label).getByRole('row').nth(1).innerText()
      await table(page, label).focus()
      await page.keyboard.press('End')
      if (isLong) await expect.poll(() => table(page, label).getByText(first).count()).toBe(0)

      // Rows have their height once they are seen, which moves the end.
      const lastRow = async (): Promise<string | null> => {
        await page.keyboard.press('End')
        return table(page, label).getByRole('row').last().getAttribute('aria-rowindex')
      }
      if (isLong) await expect.poll(lastRow).toBe('201')
      // Of what is loaded, only what is seen exists.
      expect(await table(page, label).getByRole('row').count()).toBeLessThan(105)
      expect(complaints).toEqual([])
    },
  )

  test.each(LISTS)('$at fits on a phone of 320 pixels, with all that its rows have', async ({ at, label }) => {
    const { page, complaints, barriers } = await openAt(at, { viewport: { width: 320, height: 720 } })
    await table(page, label).getByRole('row').nth(1).waitFor()

    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(320)
    const beyond = await table(page, label).evaluate((element) => {
      const { scrollWidth, clientWidth } = element as unknown as Readonly<Record<string, number>>
      return scrollWidth! - clientWidth!
    })
    expect(beyond).toBe(0)
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test.each([400, 1600])('a long table fills a window that is %d pixels high', async (height) => {
    const { page } = await openAt('/platform/chats', { viewport: { width: 1280, height } })
    await table(page, 'Chats').getByRole('row').nth(1).waitFor()

    const box = (await table(page, 'Chats').boundingBox())!
    expect(box.height).toBeLessThan(height)
    expect(box.height).toBeGreaterThan(0.85 * height)
  })

  test('runs are filtered by status and by integration, and the filter is in the address', async () => {
    const { page, complaints } = await openAt('/platform/runs')
    await page.getByRole('combobox', { name: 'Status' }).selectOption('failed')
    await expect
      .poll(async () => new Set(await table(page, 'Runs').getByRole('row').locator('td:first-child').allInnerTexts()))
      .toEqual(new Set(['failed']))
    await page.getByRole('combobox', { name: 'Integration' }).selectOption(tenant.integrationId)
    await page.reload()
    await table(page, 'Runs').getByRole('row').nth(1).waitFor()

    expect(page.url()).toMatch(/status=failed/)
    expect(page.url()).toMatch(/integration=/)
    expect(complaints).toEqual([])
  })

  test('chats are found by their consumer', async () => {
    const { page } = await openAt('/platform/chats')
    await page.getByRole('textbox', { name: 'Consumer' }).fill('seeded-000003')
    await page.keyboard.press('Enter')
    await expect
      .poll(async () => (await table(page, 'Chats').getByText('seeded-000003').count()) > 1 && rowCount(page, 'Chats'))
      .toBeLessThan(100)
  })

  test('a chat of 5,000 messages opens, and is searched by keyboard', async () => {
    const { page, complaints, barriers } = await openAt(`/platform/chats/${tenant.longChat}`)
    await page.getByText('Question 1', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Find in this conversation' }).waitFor()
    expect(await page.getByText(/^(?:Question|Answer) \d+$/).count()).toBeLessThan(60)

    await page.keyboard.press('Control+f')
    await page.keyboard.type(`Answer ${MESSAGES}`)
    await page.getByText(`Answer ${MESSAGES}`, { exact: true }).waitFor()

    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test.each(LISTS)('$at says that it loads, and shows why it could not, until it can', async ({ at, label }) => {
    let answer: (route: Route) => Promise<void> = () => new Promise(() => {})
    const { page } = await openAt('/settings')
    await page.getByRole('main').getByRole('heading').first().waitFor()
    await page.route('**/v1/**', (route) => answer(route))
    await page.goto(`${platform.url}/console/#${ofTenant(at)}`)
    await page.reload()
    await page.getByRole('status').getByText('Loading').waitFor()

    answer = (route) => route.fulfill({ status: 500, json: { error: 'Something went wrong.', code: 'internal_error' } })
    await page.reload()
    await page.getByRole('alert').getByText('Something went wrong.').first().waitFor()
    answer = (route) => route.abort('connectionrefused')
    await page.reload()
    await page.getByRole('alert').getByText('The server cannot be reached.').first().waitFor()
    await page.unroute('**/v1/**')
    const again = page.getByRole('button', { name: 'Try again' })
    await expect
      .poll(
        async () => {
          if ((await again.count()) > 0) await again.first().click()
          return page.getByRole('alert').count()
        },
        { interval: 500 },
      )
      .toBe(0)
    await table(page, label).getByRole('row').nth(1).waitFor()
  })

  test('without integrations, pages about one say why they show nothing', async () => {
    const { key } = await platform.addTenant('Nothing')
    for (const at of ['/platform/members', '/platform/files', '/platform/tokens']) {
      const { page } = await open(platform.url, { signedIn: { platform: key.token }, at })
      await page.getByRole('main').getByText('No integrations yet').waitFor()
      await page.route('**/v1/integrations?*', (route) => route.abort('connectionrefused'))
      await page.reload()
      await page.getByRole('alert').getByText('The server cannot be reached.', { exact: true }).waitFor()
      expect(await page.getByText('No integrations yet').count()).toBe(0)
    }
  })

  test('an owner without records sees what each page is for', async () => {
    const { key, ownerId } = await platform.addTenant('Empty')
    await platform.addIntegration(ownerId)
    for (const { at, empty } of LISTS) {
      if (empty === undefined) continue
      const emptyAt = at.replace('?integration=INTEGRATION', '')
      const { page, complaints, barriers } = await open(platform.url, {
        signedIn: { platform: key.token },
        at: emptyAt,
      })
      await page.getByText(empty).waitFor()
      expect(await barriers()).toEqual([])
      expect(complaints).toEqual([])
    }
  })
})
