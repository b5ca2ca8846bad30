import { setTimeout } from 'node:timers/promises'
import { Agency, Agent, tool } from '@bureau/framework'
import type { Locator, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { TestClient } from '../platform/support/test-client.ts'
import { type Served, startPlatform } from '../platform/support/test-platform.ts'
import { text, toolCall, type Turn } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { canBrowse, consoleBrowser, focused, misplaced } from './support/console-page.ts'

/** The CEO refunds little by herself and messages the Clerk, who refunds too. */
function refundShop(): { shop: Agency; paid: number[] } {
  const paid: number[] = []
  const refund = tool({
    name: 'refund',
    description: 'Pays money back.',
    parameters: z.object({ euros: z.number() }),
    needsApproval: { when: () => true, edit: true },
    execute: ({ euros }) => {
      paid.push(euros)
      return `${euros} euros are paid back.`
    },
  })
  const clerk = new Agent({
    name: 'Clerk',
    description: 'Pays.',
    instructions: 'Help.',
    model: 'gpt-test',
    tools: [refund],
  })
  const ceo = new Agent({ name: 'CEO', instructions: 'Help.', model: 'gpt-test', tools: [refund] })
  return { shop: new Agency({ name: 'Shop', entryPoint: ceo, flows: [[ceo, clerk]] }), paid }
}

type Started = { platform: Served; client: TestClient; paid: readonly number[]; signedIn: Record<string, string> }

async function start(): Promise<Started> {
  const { shop, paid } = refundShop()
  const platform = await startPlatform('pglite', { agencies: { shop } })
  closeAfterTest(() => platform.close())
  const client = await platform.client()
  return { platform, client, paid, signedIn: { platform: client.token } }
}

/** A run that waits. @returns Its id. */
async function waiting({ platform, client }: Started, script: readonly Turn[], consumerId = 'ada'): Promise<string> {
  platform.provider.script(script)
  return (await client.completeWhole({ message: 'Refund it.', consumerId })).stream.runId
}

const refund = (euros: number, callId = 'call_1'): Turn => toolCall('refund', { euros }, { callId })

const statusOf = async ({ client }: Started, run: string): Promise<string> =>
  (await client.get(`/v1/runs/${run}`)).body.status

/** Waits for something while at most half of the time goes by after which the page asks again by itself. */
async function slowly(page: Page, shown: Locator): Promise<void> {
  for (let steps = 0; steps < 250 && !(await shown.isVisible()); steps++) {
    await page.clock.runFor(20)
    await setTimeout(20)
  }
  expect(await shown.isVisible()).toBe(true)
}

describe.skipIf(!canBrowse)('runs of the platform that wait for a person', () => {
  const open = consoleBrowser()

  test('are in the inbox over all chats, counted, and go on when they are decided on there', async () => {
    const started = await start()
    const first = await waiting(started, [refund(50)], 'ada')
    const second = await waiting(started, [refund(70)], 'grace')
    const { page, barriers, complaints } = await open(started.platform.url, {
      signedIn: started.signedIn,
      at: '/platform/chats',
    })

    await page.getByRole('link', { name: /^Inbox ?2 waiting$/ }).click()
    const list = page.getByRole('list', { name: 'Runs of the platform that wait' })
    const ofAda = list.getByRole('listitem').filter({ hasText: 'ada' })
    const ofGrace = list.getByRole('listitem').filter({ hasText: 'grace' })
    await ofAda.getByRole('button', { name: 'Approve' }).waitFor()
    expect(await ofAda.getByText('Refund it.').count()).toBe(1)
    expect(await barriers()).toEqual([])
    expect(await misplaced(page)).toEqual([])
    started.platform.provider.script([text('Paid.'), text('Not paid.')])
    await ofAda.getByRole('button', { name: 'Approve' }).press('Enter')
    await ofAda.waitFor({ state: 'detached' })
    await page.getByRole('status').getByText('Approved').waitFor()
    await expect.poll(() => focused(page)).toBe('section Approval of refund, grace: Refund it.')
    await ofGrace.getByLabel('Reason').fill('Too much.')
    await ofGrace.getByRole('button', { name: 'Reject' }).press('Enter')
    await page.getByText('Nothing waits for you').waitFor()
    await page.getByRole('status').getByText('Rejected').waitFor()
    await expect.poll(() => focused(page)).toBe('h1 Inbox')

    await expect.poll(() => statusOf(started, first)).toBe('completed')
    await expect.poll(() => statusOf(started, second)).toBe('completed')
    expect(started.paid).toEqual([50])
    expect(await page.getByRole('link', { name: 'Inbox', exact: true }).count()).toBe(1)
    expect(complaints).toEqual([])
  })

  test('are decided on at their page, with other arguments, and go on before the eyes', async () => {
    const started = await start()
    await waiting(started, [refund(50), text('All is settled.')])
    const { page, barriers, complaints } = await open(started.platform.url, {
      signedIn: started.signedIn,
      at: '/platform/chats',
    })

    await page.getByRole('main').getByRole('row').nth(1).getByRole('link').click()
    await page.getByText('This chat waits').click()
    await page.getByRole('button', { name: 'Edit' }).click()
    for (const none of ['null', '[20]', '{"euros":']) {
      await page.getByLabel('Other arguments').fill(none)
      await page.getByRole('alert').getByText('It must be a JSON object.').waitFor()
      expect(await page.getByRole('button', { name: 'Approve these' }).isEnabled()).toBe(false)
    }
    await page.getByLabel('Other arguments').fill('{"euros": 20}')
    await page.getByRole('button', { name: 'Approve these' }).click()
    await page.getByText('All is settled.').waitFor()
    await page.getByRole('list', { name: 'Decisions' }).getByText('was approved with other arguments').waitFor()
    await page.getByText('completed', { exact: true }).waitFor()

    expect(started.paid).toEqual([20])
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test('keep what is written at them while the platform fails to say how the run goes on', async () => {
    const started = await start()
    const run = await waiting(started, [refund(50), text('All is settled.')])
    const at = `/platform/runs/${run}`
    const { page } = await open(started.platform.url, { signedIn: started.signedIn, at })
    const reason = page.getByRole('textbox', { name: 'Reason' })
    const failure = page.getByText('The server answered with 500.')

    await reason.fill('Too much')
    await page.route(`**/v1/runs/${run}?*`, (route) => route.fulfill({ status: 500, body: 'broken' }))
    await failure.waitFor()
    expect(await reason.inputValue()).toBe('Too much')
    await page.unrouteAll()
    await failure.waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Reject' }).click()
    await page.getByText('was rejected').getByText('Too much').waitFor()

    expect(started.paid).toEqual([])
  })

  test('in a nested agent are shown within its conversation, and decided on', async () => {
    const started = await start()
    const toClerk = toolCall('send_message', { recipient_agent: 'Clerk', message: 'Pay 50.' }, { callId: 'call_m' })
    const run = await waiting(started, [toClerk, refund(50), text('Paid by the Clerk.'), text('All is settled.')])
    const { page } = await open(started.platform.url, { signedIn: started.signedIn, at: `/platform/runs/${run}` })

    const card = page.getByRole('region', { name: 'Approval of refund' })
    await card.getByText('Clerk wants to use').waitFor()
    await card.getByRole('button', { name: 'Approve' }).click()
    await page.getByText('All is settled.').waitFor()

    expect(started.paid).toEqual([50])
  })

  test('that somebody else decides on meanwhile are not decided on twice', async () => {
    const started = await start()
    const run = await waiting(started, [refund(50), text('All is settled.')])
    const { page } = await open(started.platform.url, { signedIn: started.signedIn, at: '/inbox' })
    const approve = page.getByRole('button', { name: 'Approve' })

    await approve.waitFor()
    await started.client.post(`/v1/runs/${run}/approvals`, [{ callId: 'call_1', approve: false }])
    await approve.click()
    await page.getByText('The call was decided about otherwise.').waitFor()
    await page.getByText('Nothing waits for you').waitFor()

    expect(started.paid).toEqual([])
  })

  test('are counted as soon as the tab has seen them begin to wait or go on', async () => {
    const started = await start()
    const { platform, client, signedIn } = started
    const { page } = await open(platform.url, { signedIn, at: `/play/${client.integrationId}?on=platform` })
    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await page.clock.install()
    await page.reload()
    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await page.waitForLoadState('networkidle')
    let asked = 0
    page.on('request', (request) => (asked += Number(request.url().includes('status=waiting'))))
    await page.clock.pauseAt(Date.now() + 1_000)
    const approve = page.getByRole('button', { name: 'Approve' })
    const counted = page.getByRole('link', { name: /^Inbox ?1 waiting$/ })
    const notCounted = page.getByRole('link', { name: 'Inbox', exact: true })

    platform.provider.script([refund(50), text('All is settled.'), refund(70), text('Settled again.')])
    await page.getByRole('textbox', { name: 'Message' }).fill('Refund it.')
    await page.keyboard.press('Enter')
    await slowly(page, counted)
    await approve.click()
    await slowly(page, notCounted)
    // Once for each, and once at most because so much time has gone by.
    expect(asked).toBeLessThanOrEqual(3)

    const other = (await client.completeWhole({ message: 'Refund more.', consumerId: 'ada' })).stream.runId
    await page.goto(`${platform.url}/console/#/platform/runs/${other}`)
    await slowly(page, counted)
    await slowly(page, approve)
    await approve.click()
    await slowly(page, notCounted)
  })

  test('a platform that cannot be reached is named, and the inbox comes back with it', async () => {
    const started = await start()
    await waiting(started, [refund(50)])
    const { page } = await open(started.platform.url, { signedIn: started.signedIn, at: '/settings' })
    await page.getByRole('link', { name: /Inbox/ }).waitFor()

    await page.route('**/v1/runs?*', (route) => route.abort())
    await page.getByRole('link', { name: /Inbox/ }).click()
    await page.reload()
    await page.getByText('The server cannot be reached.', { exact: true }).waitFor()
    await page.unroute('**/v1/runs?*')
    await page.getByRole('button', { name: 'Try again', exact: true }).click()

    await page.getByRole('region', { name: 'Approval of refund' }).waitFor()
    await expect.poll(() => page.getByText('The server cannot be reached.').count()).toBe(0)
  })

  test('are not shown to a key that may not see runs, and the inbox says so', async () => {
    const started = await start()
    await waiting(started, [refund(50)])
    const { token } = (await started.client.post('/v1/api_keys', { name: 'files', scopes: ['files:read'] })).body
    const { page, barriers } = await open(started.platform.url, { signedIn: { platform: token }, at: '/inbox' })

    await page.getByText('runs:approve').waitFor()

    expect(await page.getByRole('alert').innerText()).toContain('This API key may not do that: it needs the scope runs')
    expect(await page.getByRole('region', { name: 'Approval of refund' }).count()).toBe(0)
    expect(await barriers()).toEqual([])
  })

  test('are found by whoever signs in, on a phone too', async () => {
    const started = await start()
    await waiting(started, [refund(50)])
    const { page, barriers } = await open(started.platform.url, {
      at: '/inbox',
      viewport: { width: 360, height: 720 },
      colorScheme: 'dark',
    })

    await page.getByText('Sign in to the platform').click()
    await page.getByLabel('API key').fill(started.client.token)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Chats' }).waitFor()
    await expect.poll(() => focused(page)).toBe('h1 Chats')
    await page.goto(`${started.platform.url}/console/#/inbox`)
    await page.getByRole('region', { name: 'Approval of refund' }).waitFor()

    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    expect(await barriers()).toEqual([])
    expect(await misplaced(page)).toEqual([])
  })
})
