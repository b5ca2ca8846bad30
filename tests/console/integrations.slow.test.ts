import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Agency, Agent } from '@bureau/framework'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import type { TestClient } from '../platform/support/test-client.ts'
import { type Served, startPlatform } from '../platform/support/test-platform.ts'
import { hold, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { answered, canBrowse, consoleBrowser, say } from './support/console-page.ts'
import { refund } from './support/refund-tool.ts'

function shopAgency(): Agency {
  const make = (name: string): Agent => new Agent({ name, instructions: 'Help.', model: 'gpt-test', tools: [refund] })
  return new Agency({ name: 'Shop', entryPoint: [make('CEO'), make('Clerk')] })
}

async function start(): Promise<{ platform: Served; client: TestClient; signedIn: Record<string, string> }> {
  const platform = await startPlatform('pglite', { agencies: { shop: shopAgency() } })
  closeAfterTest(() => platform.close())
  const client = await platform.client()
  return { platform, client, signedIn: { platform: client.token } }
}

/** One pixel. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

describe.skipIf(!canBrowse)('the playground with an integration of the platform', () => {
  const open = consoleBrowser()

  test('is opened at the integration, streams, and keeps the chat at the platform in the name of the consumer', async () => {
    const { platform, client, signedIn } = await start()
    platform.provider.script([text('Hello Ada.'), text('You said hello.')])
    const { page, barriers, complaints } = await open(platform.url, { signedIn, at: '/platform/integrations' })

    await page.getByRole('link', { name: 'Try it' }).click()
    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await page.getByLabel('Consumer').fill('ada')
    await page.getByLabel('Consumer').press('Enter')
    await expect.poll(() => page.url()).toContain('consumer=ada')
    await page.getByLabel('Agent', { exact: true }).selectOption('Clerk')
    await say(page, 'Hello')
    await answered(page, 'Hello Ada.')
    await say(page, 'What did I say?')
    await answered(page, 'You said hello.')
    expect(await barriers()).toEqual([])
    await page.getByRole('link', { name: 'Run', exact: true }).last().click()
    await page.getByRole('heading', { name: 'Run of Clerk' }).waitFor()

    const { data } = (await client.get('/v1/chats')).body
    expect(data).toMatchObject([{ createdByConsumerId: 'ada', lastRunStatus: 'completed', messageCount: 4 }])
    expect(JSON.stringify(platform.provider.modelRequests.at(-1)!.body)).toContain('Hello Ada.')
    expect(complaints).toEqual([])
  })

  test('an earlier message is edited in a new chat, which begins with what was said before; the old chat stays', async () => {
    const { platform, client, signedIn } = await start()
    platform.provider.script([text('One.'), text('Two.'), text('Better.')])
    const { page, barriers, complaints } = await open(platform.url, { signedIn, at: '/play' })

    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await say(page, 'First')
    await answered(page, 'One.')
    await say(page, 'Second')
    await answered(page, 'Two.')
    const before = page.url()
    await page.getByRole('button', { name: 'Edit and send in a new chat' }).last().click()
    await page.getByRole('textbox', { name: 'Edit the message' }).fill('Second, in other words')
    await page.locator('form').getByRole('button', { name: 'Send again' }).click()
    await answered(page, 'Better.')

    expect(page.url()).not.toBe(before)
    expect(await page.getByText('One.', { exact: true }).count()).toBe(1)
    expect(await page.getByText('Two.', { exact: true }).count()).toBe(0)
    const input = JSON.stringify(platform.provider.modelRequests.at(-1)!.body)
    for (const words of ['First', 'One.', 'Second, in other words']) expect(input).toContain(words)
    expect(input).not.toContain('Two.')
    const { data } = (await client.get('/v1/chats')).body
    expect(data.map(({ messageCount }: { messageCount: number }) => messageCount)).toEqual([4, 4])
    expect(await barriers()).toEqual([])
    await page.goBack()
    await answered(page, 'Two.')
    expect(complaints).toEqual([])
  })

  test('an edited message that is refused stays in its form, which says why', async () => {
    const { platform, signedIn } = await start()
    platform.provider.script([text('One.')])
    const { page, barriers } = await open(platform.url, { signedIn, at: '/play' })
    await page.route('**/branches', (route) =>
      route.fulfill({ status: 409, json: { error: 'The run has not ended.', code: 'run_active' } }),
    )

    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await say(page, 'First')
    await answered(page, 'One.')
    await page.getByRole('button', { name: 'Edit and send in a new chat' }).click()
    await page.getByRole('textbox', { name: 'Edit the message' }).fill('In other words')
    const form = page.locator('form', { has: page.getByRole('textbox', { name: 'Edit the message' }) })
    await form.getByRole('button', { name: 'Send again' }).click()
    await form.getByRole('alert').getByText('The run has not ended.').waitFor()

    expect(await page.getByRole('textbox', { name: 'Edit the message' }).inputValue()).toBe('In other words')
    expect(await barriers()).toEqual([])
  })

  test('comes back to its run after a reload, and stops it', async () => {
    const { platform, client, signedIn } = await start()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['So far', hold(gate), ' and on'])])
    const { page } = await open(platform.url, { signedIn, at: '/play' })

    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await say(page, 'Begin')
    await answered(page, 'So far')
    await page.reload()
    await answered(page, 'So far')
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.getByText('cancelled', { exact: true }).waitFor()

    expect((await client.get('/v1/runs?status=cancelled')).body.data).toHaveLength(1)
  })

  test('asks for approvals in the chat, also after a reload', async () => {
    const { platform, signedIn } = await start()
    platform.provider.script([toolCall('refund', { euros: 50 }), text('All is settled.')])
    const { page } = await open(platform.url, { signedIn, at: '/play' })

    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await say(page, 'My money')
    await page.getByRole('region', { name: 'Approval of refund' }).waitFor()
    await page.reload()
    await page.getByRole('button', { name: 'Approve' }).click()
    await answered(page, 'All is settled.')
    // 30 of each of the two requests.
    await page.getByText('60 tokens', { exact: true }).waitFor()

    expect(platform.provider.modelRequests.at(-1)!.toolOutputs.map(({ output }) => output)).toEqual([
      '50 euros are paid back.',
    ])
  })

  test('goes on when a call is decided on in the inbox, of the same tab or another one', async () => {
    const { platform, signedIn } = await start()
    const inbox = async (tab: Page): Promise<void> => {
      await tab.getByRole('button', { name: 'Approve' }).click()
      await tab.getByText('Nothing waits for you').waitFor()
    }
    platform.provider.script([toolCall('refund', { euros: 50 }, { callId: 'call_1' }), text('All is settled.')])
    const { page, complaints } = await open(platform.url, { signedIn, at: '/play' })
    const approval = page.getByRole('region', { name: 'Approval of refund' })
    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await say(page, 'My money')
    await approval.waitFor()

    const other = await page.context().newPage()
    await other.goto(`${platform.url}/console/#/inbox`)
    await inbox(other)
    await answered(page, 'All is settled.')
    expect(await approval.count()).toBe(0)
    platform.provider.script([toolCall('refund', { euros: 20 }, { callId: 'call_2' }), text('That too.')])
    await say(page, 'And the rest')
    await approval.waitFor()
    await page.getByRole('link', { name: 'Inbox' }).click()
    await inbox(page)
    await page.goBack()
    await answered(page, 'That too.')

    expect(await approval.count()).toBe(0)
    expect(platform.provider.modelRequests).toHaveLength(4)
    expect(complaints).toEqual([])
  })

  test('keeps a message that is sent while a call waits until somebody has decided on it', async () => {
    const { platform, signedIn } = await start()
    platform.provider.script([toolCall('refund', { euros: 50 }), text('All is settled.'), text('You are welcome.')])
    const { page } = await open(platform.url, { signedIn, at: '/play' })

    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await say(page, 'My money')
    await page.getByRole('region', { name: 'Approval of refund' }).waitFor()
    await page.getByRole('main').getByText('waiting', { exact: true }).waitFor()
    await say(page, 'Thanks')
    await page.getByText('is sent when the run has ended').waitFor()
    await page.getByRole('button', { name: 'Approve' }).click()
    await answered(page, 'All is settled.')
    await answered(page, 'You are welcome.')

    expect(platform.provider.modelRequests.at(-1)!.lastUserText).toBe('Thanks')
  })

  test('says why a completion was refused', async () => {
    const { platform, client, signedIn } = await start()
    await client.call('PATCH', `/v1/integrations/${client.integrationId}`, { membersRequired: true })
    const { page } = await open(platform.url, { signedIn, at: '/play' })

    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await say(page, 'Hello')

    expect(await page.getByRole('alert').innerText()).toContain('consumerId')
  })

  test('a run is reproduced in one click: same message, agent and consumer', async () => {
    const { platform, client, signedIn } = await start()
    platform.provider.script([text('First.'), text('Second.')])
    const { stream } = await client.completeWhole({ message: 'Where is order 7?', agent: 'Clerk', consumerId: 'ada' })
    const { page } = await open(platform.url, { signedIn, at: `/platform/runs/${stream.runId}` })

    await page.getByRole('button', { name: 'Open in playground' }).click()
    expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('Where is order 7?')
    await page.getByRole('button', { name: 'Send' }).click()
    await answered(page, 'Second.')

    const { data } = (await client.get('/v1/runs')).body
    expect(data).toMatchObject([
      { agent: 'Clerk', consumerId: 'ada' },
      { agent: 'Clerk', consumerId: 'ada' },
    ])
  })

  test('takes pictures with a message and says where other files go, also for two chats', async () => {
    const { platform, signedIn } = await start()
    platform.provider.respond(() => text('Seen.'))
    const { page } = await open(platform.url, { signedIn, at: '/play' })
    const notes = { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('x') }
    const dot = { name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from(PNG, 'base64') }

    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await page.getByLabel('Files', { exact: true }).setInputFiles(notes)
    const refusal = page.getByText('The platform takes pictures with a message.')
    await refusal.waitFor()
    await page.getByLabel('Files', { exact: true }).setInputFiles(dot)
    await page.getByText('dot.png').waitFor()
    await say(page, 'What is it?')
    await answered(page, 'Seen.')
    await page.getByRole('button', { name: 'More about this chat' }).click()
    await page.getByRole('menuitem', { name: 'Compare with another' }).click()
    await page.getByRole('textbox', { name: 'Message to both' }).waitFor()
    await refusal.waitFor({ state: 'detached' })
    await page.getByLabel('Files', { exact: true }).setInputFiles(notes)
    await refusal.waitFor()

    expect(JSON.stringify(platform.provider.modelRequests.at(-1)!.body)).toContain(PNG)
  })

  test('hands the request out as curl, which works as it is', async () => {
    const { platform, signedIn } = await start()
    platform.provider.script([text('One.'), text('Two, to curl.')])
    const { page } = await open(platform.url, {
      signedIn,
      at: '/play',
      permissions: ['clipboard-read', 'clipboard-write'],
    })

    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await say(page, 'Hello')
    await answered(page, 'One.')
    await page.getByRole('button', { name: 'More about this message' }).click()
    await page.getByRole('menuitem', { name: 'Copy as curl' }).click()
    const curl = await page.evaluate<string>('navigator.clipboard.readText()')

    const env = { ...process.env, BUREAU_API_KEY: signedIn['platform'] }
    const { stdout } = await promisify(execFile)('sh', ['-c', curl], { env })

    expect(stdout).toContain('Two, to curl.')
    expect(curl).not.toContain(signedIn['platform'])
  })

  test('works on a phone, in the dark, without barriers', async () => {
    const { platform, signedIn } = await start()
    platform.provider.script([text('Small.')])
    const { page, barriers, complaints } = await open(platform.url, {
      signedIn,
      at: '/play',
      viewport: { width: 360, height: 720 },
      colorScheme: 'dark',
    })

    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    await say(page, 'Hello')
    await answered(page, 'Small.')

    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })
})
