import { API_KEY_SCOPES, WEBHOOK_EVENTS } from '@bureau/protocol/platform-names'
import type { Locator, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { failed, hold, text, textDeltas } from '../support/fake-provider.ts'
import { startCuttingProxy } from '../support/cutting-proxy.ts'
import { closeAfterTest } from '../support/test-server.ts'
import type { TestClient } from '../platform/support/test-client.ts'
import { type Served, startPlatform } from '../platform/support/test-platform.ts'
import { canBrowse, consoleBrowser, loseFirstAnswer, tablesThatAreCut } from './support/console-page.ts'

async function startWithClient(): Promise<{ platform: Served; client: TestClient; signedIn: Record<string, string> }> {
  const platform = await startPlatform('pglite')
  closeAfterTest(() => platform.close())
  const client = await platform.client({ memberAllowancesEnabled: true })
  return { platform, client, signedIn: { platform: client.token } }
}

const member = (client: TestClient, consumerId: string, allowance: object | null = null) =>
  client.post(`/v1/integrations/${client.integrationId}/members`, { consumerId, allowance })

/** The error of the field that is invalid and has the focus. */
async function problemAt(page: Page, field: Locator): Promise<string> {
  const ids = (await field.and(page.locator('[aria-invalid=true]:focus')).getAttribute('aria-describedby')) ?? ''
  const texts = await Promise.all(ids.split(' ').map((id) => page.locator(`[id="${id}"]`).innerText()))
  return texts.join(' ')
}

/** A finished chat, a failed run, members, a webhook. */
async function startWithData() {
  const started = await startWithClient()
  const { platform, client } = started
  platform.provider.script([text('It is **sunny** in Paris.'), [text('Half'), failed('server_error')]])
  await member(client, 'ada', { messages: 2 })
  await member(client, 'grace')
  const ask = (consumerId: string, message: string, usageRequestId: string) =>
    client.completeWhole({ message, consumerId, usageRequestId, aliasChatId: `trip-${consumerId}` })
  await ask('ada', 'What is the weather?', 'request-1')
  await ask('grace', 'Fail, please.', 'request-2')
  await client.post('/v1/webhook_endpoints', { url: 'https://hooks.example.com/bureau', events: ['run.failed'] })
  return started
}

describe.skipIf(!canBrowse)('the pages of the platform', () => {
  const open = consoleBrowser()

  test('ask for an API key, and refuse a wrong one', async () => {
    const { platform, client } = await startWithClient()
    const { page } = await open(platform.url)

    await page.getByLabel('API key').fill('wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('It is not valid.').waitFor()
    await page.getByLabel('API key').fill(client.token)
    await page.getByRole('button', { name: 'Sign in' }).click()

    await page.getByText('No chats yet').waitFor()

    expect(page.url()).toContain('/platform/chats')
  })

  test('ask for another API key when theirs is revoked, and say so', async () => {
    const { platform, client } = await startWithClient()
    const { body: key } = await client.post('/v1/api_keys', { name: 'Short-lived' })
    const { page, barriers } = await open(platform.url, { signedIn: { platform: key.token }, at: '/platform/chats' })
    await page.getByText('No chats yet').waitFor()

    await client.call('DELETE', `/v1/api_keys/${key.id}`)
    await page.getByRole('link', { name: 'Usage' }).click()
    await page.getByText('It is not valid any more.').waitFor()
    expect(await barriers()).toEqual([])
    await page.getByLabel('API key').fill(client.token)
    await page.keyboard.press('Enter')

    await page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor()
  })

  test('say once which scope a key lacks, and ask again when somebody wants that or another key is used', async () => {
    const { platform, client } = await startWithData()
    const { body: key } = await client.post('/v1/api_keys', { name: 'Tokens', scopes: ['consumer_tokens'] })
    const { page, barriers } = await open(platform.url, { signedIn: { platform: key.token }, at: '/guide' })
    await page.clock.install()
    const asked: string[] = []
    page.on('request', (request) => {
      const { pathname } = new URL(request.url())
      if (pathname.startsWith('/v1/')) asked.push(pathname)
    })
    const alert = page.getByRole('main').getByRole('alert')
    const said: Record<string, readonly string[]> = {}

    for (const name of ['Chats', 'Usage', 'Members', 'Integrations', 'API keys', 'Webhooks', 'Files', 'Audit']) {
      await page.getByRole('link', { name, exact: true }).click()
      await page.getByRole('heading', { name, level: 1 }).waitFor()
      await alert.first().waitFor()
      await page.waitForLoadState('networkidle')
      said[name] = (await alert.allInnerTexts()).flatMap((text) => /(?<=scope )[\w:]+/.exec(text) ?? text)
    }
    expect(said).toEqual({
      Chats: ['chats:read'],
      Usage: ['usage:read'],
      Members: ['integrations:read'],
      Integrations: ['integrations:read'],
      'API keys': ['keys'],
      Webhooks: ['webhooks'],
      Files: ['integrations:read'],
      Audit: ['keys'],
    })
    await page.getByRole('link', { name: 'Integrations', exact: true }).click()
    await alert.waitFor()
    expect(await barriers()).toEqual([])
    await page.clock.runFor(60_000)
    await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`)
    await page.getByRole('link', { name: 'Chats', exact: true }).click()
    await alert.waitFor()
    await page.waitForLoadState('networkidle')
    // The page of the usage sums it up in two ways; integrations are listed, and offered for a choice.
    const twice = ['/v1/integrations', '/v1/usage/summary']
    expect(asked.toSorted()).toEqual([...new Set(asked), ...twice].toSorted())
    const before = asked.length
    await page.getByRole('button', { name: 'Try again' }).click()
    await expect.poll(() => asked.slice(before)).toEqual(['/v1/chats'])

    await page.getByRole('link', { name: 'Settings', exact: true }).click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('link', { name: 'Chats', exact: true }).click()
    await page.getByLabel('API key').fill(client.token)
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'trip-ada' }).waitFor()
    await page.getByRole('link', { name: 'Integrations', exact: true }).click()
    await page.getByRole('button', { name: /^More about/ }).waitFor()
    expect(await alert.count()).toBe(0)
  })

  test('a chat is there as its user saw it, and leads to its run', async () => {
    const { platform, signedIn } = await startWithData()
    const { page, barriers, complaints } = await open(platform.url, { signedIn, at: '/platform/chats' })

    await page.getByRole('link', { name: 'trip-grace' }).click()
    await page.getByText('Fail, please.').waitFor()
    await page.getByText('The model provider could not be reached').waitFor()
    await page.getByRole('link', { name: 'Run', exact: true }).click()
    await page.getByText('upstream_unavailable, upstream').waitFor()
    await page.goto(`${platform.url}/console/#/platform/chats`)
    await page.getByRole('link', { name: 'trip-ada' }).click()

    await page.locator('strong', { hasText: 'sunny' }).waitFor()
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test('a run is followed while it goes on, and stopped', async () => {
    const { platform, client, signedIn } = await startWithClient()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['So far', hold(gate), ' and on'])])
    await member(client, 'ada')
    const stream = await client.complete({ message: 'Begin', consumerId: 'ada', usageRequestId: 'request-1' })
    const { page } = await open(platform.url, { signedIn, at: '/platform/runs' })

    await page.getByRole('main').getByRole('link', { name: 'CEO' }).click()
    await page.getByText('So far').waitFor()
    await page.getByRole('button', { name: 'Stop now' }).click()
    await page.getByText('cancelled', { exact: true }).waitFor()

    await platform.provider.waitForAborts(1)
    await stream.all()
    expect((await client.get('/v1/runs?status=cancelled')).body.data).toHaveLength(1)
  })

  test('a key is made, shown once, and revoked', async () => {
    const { platform, client, signedIn } = await startWithClient()
    const { page } = await open(platform.url, { signedIn, at: '/platform/keys' })
    page.on('dialog', (dialog) => void dialog.accept())

    await page.getByRole('button', { name: 'New key' }).click()
    await page.getByLabel('Name').fill('Billing')
    expect(await page.getByRole('dialog').getByRole('checkbox').count()).toBe(API_KEY_SCOPES.length - 1)
    await page.getByLabel('usage:read').check()
    await page.getByRole('button', { name: 'Make the key' }).click()
    const token = await page.getByRole('dialog').locator('code').innerText()
    const billing = client.with({ token })
    const allowed = await billing.get('/v1/usage/summary?groupBy=day')
    const refused = await billing.get('/v1/chats')
    await page.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'More about Billing' }).click()
    await page.getByRole('menuitem', { name: 'Revoke it' }).click()
    await page.getByText('revoked', { exact: true }).waitFor()

    expect([allowed.status, refused.status]).toEqual([200, 403])
    expect((await billing.get('/v1/usage/summary?groupBy=day')).status).toBe(401)
    expect(await page.getByText(token).count()).toBe(0)
  })

  test('a key that expires is made once, also when it is asked for again because no answer came', async () => {
    const { platform, client, signedIn } = await startWithClient()
    const { page } = await open(platform.url, { signedIn, at: '/platform/keys' })
    await loseFirstAnswer(page, '**/v1/api_keys')

    await page.getByRole('button', { name: 'New key' }).click()
    await page.getByRole('textbox', { name: 'Name' }).fill('Back end')
    await page.getByLabel('Expires').selectOption('In 30 days')
    await page.getByRole('button', { name: 'Make the key' }).click()
    await page.getByRole('alert').getByText('The server cannot be reached.').waitFor()
    await page.getByRole('button', { name: 'Make the key' }).click()
    await page.getByRole('dialog', { name: 'Key Back end' }).getByText('the answer with its secret was lost').waitFor()

    const { data: keys } = (await client.get('/v1/api_keys')).body
    expect(keys.filter(({ name }: { name: string }) => name === 'Back end')).toHaveLength(1)
  })

  test('an integration is made once, also when it is asked for again because no answer came', async () => {
    const { platform, client, signedIn } = await startWithClient()
    const { page } = await open(platform.url, { signedIn, at: '/platform/integrations' })
    await loseFirstAnswer(page, '**/v1/integrations')

    await page.getByRole('button', { name: 'New integration' }).click()
    await page.getByLabel('Name').fill('Shop for partners')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').getByText('The server cannot be reached.').waitFor()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })

    const { data } = (await client.get('/v1/integrations')).body
    expect(data.filter(({ name }: { name: string }) => name === 'Shop for partners')).toHaveLength(1)
  })

  test('a consumer token is made, shown once, and revoked', async () => {
    const { platform, client, signedIn } = await startWithClient()
    await member(client, 'ada')
    const { page, barriers, complaints } = await open(platform.url, {
      signedIn,
      at: `/platform/members/${client.integrationId}/ada`,
    })

    await page.getByRole('link', { name: 'Tokens', exact: true }).click()
    await page.getByText('No tokens were revoked').waitFor()
    await page.getByRole('button', { name: 'New token' }).click()
    await page.getByRole('checkbox', { name: 'approve' }).check()
    expect(await barriers()).toEqual([])
    await page.getByRole('button', { name: 'Make the token' }).click()
    await page.getByText('Good for chat, read, approve until').waitFor()
    const token = await page.getByRole('dialog').locator('code').innerText()
    const ada = client.with({ token })
    expect((await ada.get('/v1/chats')).status).toBe(200)
    expect((await ada.get('/v1/integrations')).status).toBe(403)
    await page.getByRole('button', { name: 'Close' }).click()
    expect(await page.getByText(token).count()).toBe(0)

    await page.getByRole('button', { name: 'Revoke' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
    await page.getByRole('region', { name: 'Revoked tokens' }).getByText('ada', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Revoke' }).click()
    await page.getByLabel('Whose').selectOption('Of every consumer of the integration')
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
    await page.getByText('every consumer', { exact: true }).waitFor()

    expect((await ada.get('/v1/chats')).body.code).toBe('invalid_consumer_token')
    expect(complaints).toEqual([])
  })

  test.each([390, 1280])(
    'names as long as they may be leave pages of %d pixels their width, and buttons their place',
    async (width) => {
      const { platform, client, signedIn } = await startWithClient()
      platform.provider.script([text('Hello.')])
      const name = 'Donaudampfschifffahrtsgesellschaft'.repeat(5)
      const consumerId = name.slice(0, 120)
      await client.post('/v1/integrations', {
        name,
        agencyId: (await client.get('/v1/agencies')).body.data[0].agencyId,
      })
      const [{ apiIntegrationId: integration }] = (await client.get('/v1/integrations')).body.data
      await client.post(`/v1/integrations/${integration}/members`, { consumerId, displayName: name.slice(0, 100) })
      await client.post('/v1/api_keys', { name: name.slice(0, 100), scopes: ['runs', 'chats:read', 'webhooks'] })
      await client.post('/v1/webhook_endpoints', { url: `https://hooks.example.com/${name}`, events: ['run.failed'] })
      await client.post('/v1/consumer_tokens/revoke', { apiIntegrationId: integration, consumerId })
      await member(client, consumerId)
      await client.completeWhole({ message: 'Hello', consumerId, usageRequestId: name.slice(0, 60) })
      const { page } = await open(platform.url, { signedIn, viewport: { width, height: 800 } })
      const cut: Record<string, readonly string[]> = {}

      const own = `?integration=${integration}`
      const tablesAt = {
        chats: 'Chats',
        runs: 'Runs',
        [`members${own}`]: 'Members',
        integrations: 'Integrations',
        keys: 'API keys',
        [`tokens${own}`]: 'Revoked tokens',
        webhooks: 'Webhook endpoints',
        'usage?group=consumer': 'Usage by consumer',
      }
      for (const [at, label] of Object.entries(tablesAt)) {
        await page.goto(`${platform.url}/console/#/platform/${at}`)
        await page.getByRole('region', { name: label, exact: true }).getByRole('table').waitFor()
        const taken = await page.evaluate<number>('document.documentElement.scrollWidth')
        const tables = await tablesThatAreCut(page)
        if (taken > width || tables.length > 0) cut[at] = tables
      }

      expect(cut).toEqual({})
      await page.goto(`${platform.url}/console/#/platform/tokens?integration=${integration}`)
      const [choice, revoke] = [page.getByLabel('Integration'), page.getByRole('button', { name: 'Revoke' })]
      const [{ y: top }, { y }] = [(await choice.boundingBox())!, (await revoke.boundingBox())!]
      expect(y - top).toBeLessThan(width > 768 ? 20 : 60)
    },
  )

  test('whose runs and chats are listed is shown above them, and may be changed there', async () => {
    const { platform, client, signedIn } = await startWithData()
    const at = `/platform/members/${client.integrationId}/ada`
    const { page, barriers } = await open(platform.url, { signedIn, at })
    const main = page.getByRole('main')
    const consumer = main.getByRole('textbox', { name: 'Consumer' })

    await main.getByRole('link', { name: 'Runs', exact: true }).click()
    await main.getByRole('link', { name: 'What is the weather?' }).waitFor()
    expect(await consumer.inputValue()).toBe('ada')
    expect(await main.getByRole('link', { name: 'Fail, please.' }).count()).toBe(0)
    await consumer.fill('')
    await main.getByRole('link', { name: 'Fail, please.' }).waitFor()
    expect(await barriers()).toEqual([])
    await page.goto(`${platform.url}/console/#/platform/chats?consumer=nobody`)

    await page.getByText('No such chats').waitFor()
    expect(await page.getByText('No chats yet').count()).toBe(0)
  })

  test('an empty list that cannot be read again says so', async () => {
    const { platform, signedIn } = await startWithClient()
    const { page } = await open(platform.url, { signedIn, at: '/settings' })
    await page.clock.install()
    await page.getByRole('link', { name: 'Webhooks' }).click()
    await page.getByText('No webhooks yet').waitFor()

    await page.route('**/v1/webhook_endpoints*', (route) => route.fulfill({ status: 500, body: 'broken' }))
    await page.clock.runFor(10_000)
    const failure = page.getByText('The server answered with 500.')
    await expect.poll(async () => (await page.clock.runFor(1_000), failure.isVisible())).toBe(true)
    await page.unrouteAll()
    await page.getByRole('button', { name: 'Try again' }).click()
    await failure.waitFor({ state: 'detached' })

    expect(await page.getByText('No webhooks yet').count()).toBe(1)
  })

  test('a member that has used up the allowance is granted more', async () => {
    const { platform, client, signedIn } = await startWithClient()
    platform.provider.script([text('One.'), text('Two.')])
    await member(client, 'ada', { messages: 1 })
    const say = (usageRequestId: string) =>
      client.completeWhole({ message: 'Hello', consumerId: 'ada', usageRequestId })
    await say('request-1')
    const refused = await say('request-2')
    const { page } = await open(platform.url, { signedIn, at: '/platform/members' })

    await page.getByText('used up').waitFor()
    await page.getByRole('link', { name: 'ada' }).click()
    await page.getByRole('meter', { name: 'messages' }).waitFor()
    await page.getByRole('button', { name: 'Grant more' }).click()
    await page.getByRole('spinbutton', { name: 'Messages' }).fill('5')
    await page.getByLabel('Note').fill('A good customer')
    await page.route(
      '**/adjustments',
      async (route) => {
        await route.fetch()
        await route.abort() // The answer is lost, and the form is sent again.
      },
      { times: 1 },
    )
    await page.getByRole('button', { name: 'Grant', exact: true }).click()
    await page.getByText('The server cannot be reached.').first().waitFor()
    await page.getByRole('button', { name: 'Grant', exact: true }).click()
    await page.getByText('1 of 6').waitFor()
    await page.getByText('A good customer').waitFor()

    expect(refused.status).toBe(429)
    expect((await say('request-3')).status).toBe(200)
  })

  test('an integration is made, changed and switched off', async () => {
    const { platform, client, signedIn } = await startWithClient()
    const { page } = await open(platform.url, { signedIn, at: '/platform/integrations' })

    await page.getByRole('button', { name: 'New integration' }).click()
    await page.getByLabel('Name').fill('Shop for partners')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Shop for partners').waitFor()
    await page.getByRole('button', { name: 'More about Shop for partners' }).click()
    await page.getByRole('menuitem', { name: 'Settings' }).click()
    await page.getByLabel('Members alone may send messages').check()
    await page.getByLabel('Tokens of a chat').fill('20000')
    await page.getByLabel('Tools about whose calls').fill('refund\nsend_letter\n')
    await page.getByLabel('Origins of pages').fill('https://app.example.com')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('members only').waitFor()
    await page.getByRole('button', { name: 'More about Shop for partners' }).click()
    await page.getByRole('menuitem', { name: 'Switch off' }).click()
    await page.getByText('disabled', { exact: true }).waitFor()

    const { data } = (await client.get('/v1/integrations')).body
    const made = data.find(({ name }: { name: string }) => name === 'Shop for partners')
    expect(made).toMatchObject({
      membersRequired: true,
      historyTokens: 20_000,
      consumerApprovals: ['refund', 'send_letter'],
      allowedOrigins: ['https://app.example.com'],
      status: 'disabled',
      agencyId: 'shop',
    })
  })

  test('a file is uploaded, downloaded and deleted', async () => {
    const { platform, signedIn } = await startWithClient()
    const { page, complaints } = await open(platform.url, { signedIn, at: '/platform/files' })
    page.on('dialog', (dialog) => void dialog.accept())

    await page.getByText('No files yet').waitFor()
    await page.getByLabel('File', { exact: true }).setInputFiles({
      name: 'report.csv',
      mimeType: 'text/csv',
      buffer: Buffer.from('a,b\n1,2\n'),
    })
    await page.getByRole('button', { name: 'More about report.csv' }).click()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('menuitem', { name: 'Download' }).click(),
    ])
    await page.getByRole('button', { name: 'More about report.csv' }).click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await page.getByText('No files yet').waitFor()

    expect(download.suggestedFilename()).toBe('report.csv')
    expect(complaints).toEqual([])
  })

  test('a file that a proxy refuses is refused with its status', async () => {
    const { platform, client, signedIn } = await startWithClient()
    const at = `/platform/files?integration=${client.integrationId}`
    const { page } = await open(platform.url, { signedIn, at })
    await page.route('**/v1/upload_content/**', (route) =>
      route.fulfill({ status: 413, contentType: 'text/html', body: '<h1>413 Request Entity Too Large</h1>' }),
    )
    await page.getByRole('button', { name: 'Upload' }).waitFor()

    await page.getByLabel('File', { exact: true }).setInputFiles({
      name: 'guide.md',
      mimeType: 'text/markdown',
      buffer: Buffer.from('# The guide'),
    })
    const toast = page.getByRole('status').filter({ hasText: '413' })

    await expect.poll(() => toast.innerText()).toBe('The server answered with 413.')
  })

  test('a webhook is offered every event, and shows its secret once and its deliveries', async () => {
    const { platform, client, signedIn } = await startWithClient()
    const { page, barriers } = await open(platform.url, { signedIn, at: '/platform/webhooks' })

    await page.getByRole('button', { name: 'New endpoint' }).click()
    await page.getByLabel('Address').fill('https://hooks.example.com/bureau')
    for (const event of WEBHOOK_EVENTS) await page.getByLabel(event, { exact: true }).check()
    await page.getByRole('button', { name: 'Add', exact: true }).click()
    const secret = await page.getByRole('dialog').locator('code').innerText()
    await page.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'https://hooks.example.com/bureau', exact: true }).click()
    await page.getByText('Nothing was delivered yet').waitFor()

    const [endpoint] = (await client.get('/v1/webhook_endpoints')).body.data
    expect(endpoint.events).toEqual(WEBHOOK_EVENTS)
    expect(secret).toMatch(/^whsec_/)
    expect(await barriers()).toEqual([])
  })

  test('a refusal is at the field that it is about, which gets the focus and says so to those who listen', async () => {
    const { platform, client, signedIn } = await startWithClient()
    await member(client, 'ada', { messages: 2 })
    const { page, barriers } = await open(platform.url, { signedIn, at: '/platform/webhooks' })

    await page.getByRole('button', { name: 'New endpoint' }).click()
    const address = page.getByRole('dialog').getByRole('textbox', { name: 'Address' })
    await address.fill('https://localhost/hook')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByRole('alert').waitFor()
    const ofAddress = await problemAt(page, address)
    const found = await barriers()
    await page.goto(`${platform.url}/console/#/platform/members?integration=${client.integrationId}`)
    await page.getByRole('button', { name: 'Add a member' }).click()
    const consumer = page.getByRole('dialog').getByRole('textbox', { name: 'Consumer id' })
    await consumer.fill('ada')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByRole('alert').waitFor()

    expect(ofAddress).toMatch(/^A public HTTPS address\. The webhook URL is not a public HTTPS address\./)
    expect(await problemAt(page, consumer)).toMatch(/The member exists with other values\.$/)
    expect(found).toEqual([])
  })

  test('a refusal that is about no field is in the dialog', async () => {
    const { platform, signedIn } = await startWithClient()
    const { page } = await open(platform.url, { signedIn, at: '/platform/keys' })
    await page.route('**/v1/api_keys', (route) =>
      route.request().method() === 'POST'
        ? route.fulfill({ status: 503, json: { error: 'Try again later.', code: 'overloaded' } })
        : route.continue(),
    )

    await page.getByRole('button', { name: 'New key' }).click()
    await page.getByRole('textbox', { name: 'Name' }).fill('Back end')
    await page.getByRole('button', { name: 'Make the key' }).click()
    const alert = page.getByRole('dialog').getByRole('alert')
    await alert.waitFor()

    expect(await alert.innerText()).toBe('Try again later.')
  })

  test.each([
    { at: 'integrations', opener: 'New integration', field: 'Name', action: 'Save' },
    { at: 'members', opener: 'Add a member', field: 'Consumer id', action: 'Add' },
    { at: 'keys', opener: 'New key', field: 'Name', action: 'Make the key' },
  ])(
    'what is typed at "$opener" is there when the server is back, and when somebody signs in after the key was revoked',
    async ({ at, opener, field, action }) => {
      const { platform, client } = await startWithClient()
      const { body: key } = await client.post('/v1/api_keys', { name: 'Short-lived' })
      const network = await startCuttingProxy(platform.url)
      const signedIn = { platform: key.token }
      const { page, barriers } = await open(network.url, { signedIn, at: `/platform/${at}` })
      const dialog = page.getByRole('dialog')
      const typed = dialog.getByRole('textbox', { name: field })
      await page.getByRole('button', { name: opener }).click()
      await typed.fill('back-end')

      network.shut()
      await page.keyboard.press('Enter')
      await dialog.getByText('The server cannot be reached.', { exact: true }).waitFor()
      network.open()
      await page.getByText('It is asked again every two seconds').waitFor({ state: 'detached' })
      expect(await typed.inputValue()).toBe('back-end')

      await client.call('DELETE', `/v1/api_keys/${key.id}`)
      await dialog.getByRole('button', { name: action }).click()
      await page.getByText('It is not valid any more.').waitFor()
      expect(await dialog.isVisible()).toBe(false)
      expect(await barriers()).toEqual([])
      await page.getByRole('textbox', { name: 'API key' }).fill(client.token)
      await page.keyboard.press('Enter')
      await dialog.waitFor()
      expect(await typed.inputValue()).toBe('back-end')
      await expect
        .poll(() => page.evaluate(`document.querySelector('[role=dialog]').matches(':focus-within')`))
        .toBe(true)
      await dialog.getByRole('button', { name: action }).click()

      await page.locator('main').getByText('back-end', { exact: true }).first().waitFor()
    },
  )

  test.each([
    { unit: 'Cost', spent: 0.00007, writes: ['$0.00002', '$0.00004', '$0.00006'] },
    { unit: 'Cost', spent: 0.9, writes: ['$0.20', '$0.40', '$0.60', '$0.80'] },
    { unit: 'Runs', spent: 0, writes: ['0', '1', '2'] },
  ])('the axis of the usage tells small amounts of $unit from each other: $writes', async ({ unit, spent, writes }) => {
    const { platform, signedIn } = await startWithData()
    const { page } = await open(platform.url, { signedIn, at: '/settings' })
    await page.evaluate(`{
      globalThis.written = []
      const { fillText } = CanvasRenderingContext2D.prototype
      CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        written.push(text)
        fillText.call(this, text, ...rest)
      }
    }`)
    await page.route('**/v1/usage/summary*', async (route) => {
      const summary = await (await route.fetch()).json()
      for (const { usage } of summary.data) usage.total_cost = spent
      await route.fulfill({ json: summary })
    })

    await page.getByRole('link', { name: 'Usage' }).click()
    await page.getByRole('img', { name: `${unit} by day` }).waitFor()

    const labels = (await page.evaluate<string[]>('written')).filter((text) => !/[a-z]/i.test(text))
    expect(labels).toEqual(expect.arrayContaining(writes))
    expect(new Set(labels).size).toBe(unit === 'Runs' ? writes.length : writes.length + 1)
  })

  test('usage comes as CSV', async () => {
    const { platform, signedIn } = await startWithData()
    const { page } = await open(platform.url, { signedIn, at: '/platform/usage' })

    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'CSV' }).click(),
    ])
    const lines: string[] = []
    for await (const chunk of await download.createReadStream()) lines.push(String(chunk))

    expect(lines.join('').trim().split('\n')).toHaveLength(3)
  })
})
