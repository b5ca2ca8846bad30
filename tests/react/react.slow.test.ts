import { Agency, Agent, tool } from '@bureau/framework'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { canBrowse, launchChromium } from '../support/chromium.ts'
import { startPlatform } from '../platform/support/test-platform.ts'
import { type FakeProvider, hold, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest, startTestServer } from '../support/test-server.ts'
import { CLIENTS, FRONT_END, serveFrontEnd, TEMPLATE } from './front-end.ts'

const parameters = z.object({ order: z.number() })

const refund = tool({
  name: 'refund',
  description: 'Pays an order back.',
  parameters,
  execute: ({ order }) => `Order ${order} is paid back.`,
})

/** What the tools that ask first have done. */
const carriedOut: string[] = []

const ship = tool({
  name: 'ship',
  description: 'Sends an order.',
  parameters,
  needsApproval: { when: true, edit: true },
  execute: ({ order }) => `Shipped: ${carriedOut.push(`ship ${order}`)}`,
})

const scrap = tool({
  name: 'scrap',
  description: 'Throws an order away.',
  parameters,
  needsApproval: true,
  execute: ({ order }) => `Scrapped: ${carriedOut.push(`scrap ${order}`)}`,
})

function supportAgency(): Agency {
  const entryPoint = new Agent({
    name: 'Helper',
    instructions: 'Help.',
    model: 'gpt-test',
    tools: [refund, ship, scrap],
  })
  return new Agency({ name: 'Support', entryPoint })
}

type Backend = {
  readonly provider: FakeProvider
  readonly url: string
  readonly client: string
  readonly token?: string
}

const BACKENDS: Readonly<Record<string, () => Promise<Backend>>> = {
  'self-hosted server': async () => {
    const { url, provider } = await startTestServer({ agencies: { support: supportAgency() } })
    return { url, provider, client: CLIENTS[0]! }
  },
  platform: async () => {
    const platform = await startPlatform('pglite', { agencies: { shop: supportAgency() } })
    closeAfterTest(() => platform.close())
    const { url, token, integrationId } = await platform.client()
    const client = CLIENTS[1]!
      .replace("'https://agents.example.com'", 'location.origin')
      .replace('int_…', integrationId)
    return { url, provider: platform.provider, client, token }
  },
}

let browser: Browser

/** A page, and what it complained about. */
async function open(url: string, { storesNothing = false } = {}): Promise<{ page: Page; complaints: string[] }> {
  const context = await browser.newContext()
  closeAfterTest(() => context.close())
  if (storesNothing) await context.addInitScript(forbidStorage)
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  await page.goto(url)
  return { page, complaints }
}

/** As a browser does in a frame of another site, where its user blocks cookies of others. */
function forbidStorage(): void {
  const get = (): never => {
    throw new DOMException('Access is denied for this document.', 'SecurityError')
  }
  Object.defineProperty(globalThis, 'localStorage', { get })
}

const ask = async (page: Page, message: string): Promise<void> => {
  await page.getByLabel('Message').fill(message)
  await page.getByLabel('Message').press('Enter')
}

const messages = (page: Page): Promise<string[]> => page.locator('article').allInnerTexts()

describe.skipIf(!canBrowse)('the front end of the page about React', () => {
  beforeAll(async () => void (browser = await launchChromium()))
  afterAll(() => browser.close())

  test.each([
    ['of the page', FRONT_END],
    ['of the template', TEMPLATE.source],
  ])(
    'the front end %s shows what an agent tells the user, and not what others tell that agent',
    async (_name, source) => {
      const clerk = new Agent({ name: 'Clerk', description: 'Knows orders.', model: 'gpt-test', tools: [refund] })
      const desk = new Agent({ name: 'Desk', model: 'gpt-test' })
      const support = new Agency({ entryPoint: desk, flows: [[desk, clerk]] })
      const { url, provider } = await startTestServer({ agencies: { support } })
      const { page, complaints } = await open(await serveFrontEnd(url, { source, client: CLIENTS[0]! }))
      provider.script([
        toolCall('send_message', { recipient_agent: 'Clerk', message: 'Order 7?', additional_instructions: '' }),
        toolCall('refund', { order: 7 }),
        text('Tell them it is paid back.'),
        text('It is paid back.'),
      ])

      await ask(page, 'Where is order 7?')

      await page.getByText('It is paid back.', { exact: true }).waitFor()
      expect((await messages(page))[1]).toMatch(/^refund: done\s+It is paid back\.$/)
      expect(complaints).toEqual([])
    },
  )

  test.each(Object.entries(BACKENDS))(
    'on a %s: streams, shows tools, goes on after a reload, and stops',
    async (_name, start) => {
      const { provider, url, ...front } = await start()
      const { page, complaints } = await open(await serveFrontEnd(url, front))
      const gates = [provider.gate(), provider.gate()] as const
      provider.script([
        [toolCall('refund', { order: 7 })],
        textDeltas(['It is', hold(gates[0]), ' done.']),
        textDeltas(['Once', hold(gates[1]), ' upon']),
      ])

      await ask(page, 'Refund order 7')
      await page.getByText('It is').waitFor()
      await page.reload()
      await page.getByText('It is').waitFor()
      expect(await messages(page)).toEqual(['Refund order 7', expect.stringMatching(/^refund: done\s+It is$/)])
      gates[0].release()
      await page.getByText('It is done.').waitFor()

      await ask(page, 'Tell me more')
      await page.getByText('Once').waitFor()
      await page.getByRole('button', { name: 'Stop' }).click()
      await provider.waitForAborts(1)
      gates[1].release()
      await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' })
      await page.reload()
      await page.getByText('Tell me more').waitFor()
      expect((await messages(page)).slice(0, 2)).toEqual(['Refund order 7', expect.stringMatching(/It is done\.$/)])
      expect(complaints).toEqual([])
    },
  )

  test.each(Object.entries(BACKENDS))(
    'on a %s: a reload before the first frame shows the message, and goes on with its run',
    async (_name, start) => {
      const { provider, url, ...front } = await start()
      const { page, complaints } = await open(await serveFrontEnd(url, front))
      const gate = provider.gate()
      provider.script([[hold(gate, { before: 'headers' }), text('Here it is.')]])
      // What the server answers does not reach the page before it is left.
      const starts = /get_response_stream|get_completion_v2/
      const sent = Promise.withResolvers<void>()
      await page.route(starts, (route) => {
        void route.fetch().catch(() => {})
        sent.resolve()
      })

      await ask(page, 'Where is order 7?')
      await sent.promise
      await provider.waitForRequests(1)
      await page.unroute(starts)
      await page.reload()
      await page.getByText('Where is order 7?').waitFor()
      gate.release()
      await page.getByText('Here it is.').waitFor()

      expect(await messages(page)).toEqual(['Where is order 7?', 'Here it is.'])
      expect(provider.modelRequests).toHaveLength(1)
      expect(complaints).toEqual([])
    },
  )

  test.each(Object.entries(BACKENDS))(
    'on a %s: asks for approvals, before and after a reload, with other arguments where they are allowed',
    async (_name, start) => {
      const { provider, url, ...front } = await start()
      const { page, complaints } = await open(await serveFrontEnd(url, front))
      carriedOut.length = 0
      provider.script([
        [toolCall('ship', { order: 7 }), toolCall('scrap', { order: 8 }), toolCall('scrap', { order: 9 })],
        text('All is decided.'),
      ])

      await ask(page, 'Clear the table')
      await page.getByText('ship: approval').waitFor()
      await page.reload()
      const waiting = page.locator('form', { has: page.getByRole('button', { name: 'Approve' }) })
      await waiting.nth(2).waitFor()
      expect([await page.getByText('Clear the table').count(), await page.getByText('stopped').count()]).toEqual([1, 0])
      const given = waiting.getByLabel('Arguments')
      expect(await given.evaluateAll((boxes) => boxes.map((box) => (box as { readOnly?: boolean }).readOnly))).toEqual([
        false,
        true,
        true,
      ])

      await given.first().fill('{"order":70}')
      await waiting.first().getByRole('button', { name: 'Approve' }).click()
      await waiting.nth(2).waitFor({ state: 'detached' })
      await waiting.first().getByRole('button', { name: 'Approve' }).click()
      await waiting.nth(1).waitFor({ state: 'detached' })
      await waiting.getByRole('button', { name: 'Reject' }).click()
      await page.getByText('All is decided.').waitFor()

      expect(await waiting.count()).toBe(0)
      expect(carriedOut.toSorted()).toEqual(['scrap 8', 'ship 70'])
      expect(provider.requests.at(-1)!.toolOutputs.map(({ output }) => output)).toEqual([
        expect.stringContaining('{"order":70}'),
        expect.stringMatching(/^Scrapped/),
        expect.stringContaining('The user said no.'),
      ])
      expect(complaints).toEqual([])
    },
  )

  test('a page that may store nothing answers, with what was said before', async () => {
    const { provider, url, ...front } = await BACKENDS['self-hosted server']!()
    const { page, complaints } = await open(await serveFrontEnd(url, front), { storesNothing: true })
    provider.respond(({ items }) => text(`Message ${items.length}.`))
    await ask(page, 'Hello')
    await page.getByText('Message 1.').waitFor()
    await ask(page, 'And now?')
    await page.getByText('Message 3.').waitFor()

    expect(complaints).toEqual([])
  })

  test('the page of the Next.js template answers, asks for an approval, and has its messages after a reload', async () => {
    const { provider, url, ...front } = await BACKENDS['self-hosted server']!()
    const { page, complaints } = await open(await serveFrontEnd(url, { ...front, ...TEMPLATE }))
    provider.script([[toolCall('ship', { order: 7 })], text('It is on its way.')])

    await ask(page, 'Ship order 7')
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByText('It is on its way.').waitFor()
    await page.reload()
    await page.getByText('It is on its way.').waitFor()

    expect(await messages(page)).toEqual(['Ship order 7', expect.stringMatching(/^ship: done\s+It is on its way\.$/)])
    expect(complaints).toEqual([])
  })

  test('the page of the Next.js template keeps the lines of an answer, and its end and the field in sight', async () => {
    const { provider, url, ...front } = await BACKENDS['self-hosted server']!()
    const { page } = await open(await serveFrontEnd(url, { ...front, ...TEMPLATE }))
    const poem = Array.from({ length: 80 }, (_, line) => `line ${line}`).join('\n')
    provider.script([text(poem), text('The end.')])

    await page.getByRole('textbox', { name: 'Message' }).fill('Sing')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByText('line 79').waitFor()
    expect(await page.getByText('line 79').innerText()).toBe(poem)
    await ask(page, 'And?')
    await page.getByText('The end.').waitFor()

    for (const seen of [page.getByText('The end.'), page.getByRole('textbox', { name: 'Message' })]) {
      const { y, height } = (await seen.boundingBox())!
      expect(y).toBeGreaterThan(0)
      expect(y + height).toBeLessThanOrEqual(page.viewportSize()!.height)
    }
  })

  test('the front end of the page is at most 40 lines of a user', () => {
    expect(FRONT_END.trimEnd().split('\n').length).toBeLessThanOrEqual(40)
  })

  test('on the platform, useChat of the AI SDK says why the history cannot be loaded, and tries again', async () => {
    const { provider, url, ...front } = await BACKENDS['platform']!()
    const served = await serveFrontEnd(url, { ...front, file: 'ai-sdk-chat.tsx' })
    const { page } = await open('about:blank')
    await page.route('**/v1/**', (route) =>
      route.fulfill({ status: 403, json: { error: 'Not you.', code: 'insufficient_scope' } }),
    )
    await page.goto(served)
    const again = page.getByRole('button', { name: 'Not you. Try again' })
    await again.waitFor()
    await page.unroute('**/v1/**')
    provider.script([text('Here it is.')])
    await again.click()
    await page.getByRole('button', { name: 'Ask' }).click()
    await page.getByText('Here it is.').waitFor()

    expect(await again.count()).toBe(0)
  })

  test.each(Object.entries(BACKENDS))(
    'on a %s: useChat of the AI SDK streams, resumes and stops',
    async (_name, start) => {
      const { provider, url, ...front } = await start()
      const { page, complaints } = await open(await serveFrontEnd(url, { ...front, file: 'ai-sdk-chat.tsx' }))
      const gates = [provider.gate(), provider.gate()] as const
      const answer = textDeltas(['It is', hold(gates[0]), ' nearly', hold(gates[1]), ' done.'])
      provider.script([[toolCall('refund', { order: 7 })], answer])

      await page.getByRole('button', { name: 'Ask' }).click()
      await page.getByText('It is').waitFor()
      await page.reload()
      await page.getByText('It is').waitFor()
      gates[0].release()
      await page.getByText('It is nearly').waitFor()
      await page.getByRole('button', { name: 'Stop' }).click()
      await provider.waitForAborts(1)
      gates[1].release()

      provider.script([text('Again.')])
      await page.getByRole('button', { name: 'Ask' }).click()
      await page.getByText('Again.').waitFor()
      await page.reload()
      await page.getByText('Again.').waitFor()
      // Of the answer that was stopped, its tool call is left, which this page does not show.
      const said = ['Where is order 7?', '', 'Where is order 7?', 'Again.']
      expect(await page.locator('main p').allInnerTexts()).toEqual(said)
      expect(complaints).toEqual([])
    },
  )
})
