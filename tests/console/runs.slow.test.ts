import { text as readText } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { hold, status, text, textDeltas } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'
import { canBrowse, consoleBrowser, focused } from './support/console-page.ts'

describe.skipIf(!canBrowse)('the runs of a server', () => {
  const open = consoleBrowser()

  test('are listed while they go on, whoever began them, and cancelled', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['So far', hold(gate), ' and on'])])
    const { page, barriers, complaints } = await open(server.url, { at: '/runs' })
    await page.getByText('No runs yet').waitFor()

    const stream = await server.stream('/solo/get_response_stream', { message: 'From a program' })
    await page.getByRole('link', { name: 'From a program' }).waitFor()
    expect(await barriers()).toEqual([])
    await page.getByRole('link', { name: 'From a program' }).click()
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByText('cancelled', { exact: true }).waitFor()

    await server.provider.waitForAborts(1)
    await stream.all()
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test('are found by status and by words, and the address says so', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Good.'), status(401)])
    await server.post('/solo/get_response', { message: 'the good one' })
    await server.post('/solo/get_response', { message: 'the bad one' })
    const { page } = await open(server.url, { at: '/runs' })

    await page.getByRole('link', { name: 'the good one' }).waitFor()
    await page.getByRole('combobox', { name: 'Status' }).selectOption('failed')
    await page.getByRole('link', { name: 'the good one' }).waitFor({ state: 'detached' })
    expect(page.url()).toContain('status=failed')
    await page.reload()
    await page.getByRole('link', { name: 'the bad one' }).waitFor()
    await page.getByRole('textbox', { name: 'Find' }).fill('nothing like it')

    await page.getByText('No runs yet').waitFor()
  })

  test('go on in the playground, with their history, context and instructions', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Paris it is.'), text('As I said: Paris.')])
    await server.post('/solo/get_response', {
      message: 'Where to?',
      chat_history: [{ role: 'user', content: 'I like museums.' }],
      user_context: { user: 'ada' },
      additional_instructions: 'Be brief.',
    })
    const { page } = await open(server.url, { at: '/runs' })

    await page.getByRole('link', { name: 'Where to?' }).click()
    await page.getByRole('button', { name: 'Open in playground' }).click()
    await page.getByText('Paris it is.').waitFor()
    await page.getByRole('textbox', { name: 'Message' }).fill('Again?')
    await page.keyboard.press('Enter')
    await page.getByText('As I said: Paris.').waitFor()

    const { body, instructions } = server.provider.modelRequests.at(-1)!
    const sent = JSON.stringify(body)
    expect([sent.includes('I like museums.'), sent.includes('Paris it is.')]).toEqual([true, true])
    expect(instructions).toContain('Be brief.')
    const [run] = (await server.get('/console/runs')).body.runs
    expect((await server.get(`/console/runs/${run.run_id}`)).body.request.user_context).toEqual({ user: 'ada' })
  })

  test.each([390, 768, 1440])('are listed with all that is known of them, at %d pixels', async (width) => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Good.')])
    await server.post('/solo/get_response', { message: 'Hello' })
    const { page } = await open(server.url, { at: '/runs', viewport: { width, height: 800 } })

    await page.getByRole('link', { name: 'Hello' }).waitFor()
    const shown = (await page.getByRole('region', { name: 'Runs' }).innerText()).split(/\s+/)

    expect(shown).toEqual(expect.arrayContaining(['completed', 'solo', 'Version', 'Calls', 'Tokens', 'Cost', 'Began']))
  })

  test('are exported as JSON', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Good.')])
    await server.post('/solo/get_response', { message: 'Hello' })
    const { page } = await open(server.url, { at: '/runs' })

    await page.getByRole('link', { name: 'Hello' }).click()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export' }).click(),
    ])
    const exported = JSON.parse(await readText(await download.createReadStream()))

    expect(exported).toMatchObject({ status: 'completed', request: { message: 'Hello' } })
    expect(exported.steps.map(({ kind }: { kind: string }) => kind)).toEqual(['agent', 'model'])
  })

  test('are not kept in production, and the page says how they would be', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { NODE_ENV: 'production' } })
    const { page, complaints } = await open(server.url, { at: '/runs' })

    await page.getByText('This server keeps no runs').waitFor()
    expect(await page.getByText('BUREAU_KEEP_RECENT_RUNS=true').isVisible()).toBe(true)
    expect(complaints).toEqual([])
  })
})

describe.skipIf(!canBrowse)('around the pages', () => {
  const open = consoleBrowser()

  test('Ctrl+K finds pages, agents and chats by keyboard alone', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page, barriers, complaints } = await open(server.url, { at: '/settings' })

    await page.getByText('Agency solo: 1 agent on').waitFor()
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: 'Search pages, agents, tools and chats' }).fill('graph')
    expect(await barriers()).toEqual([])
    // Enter ends what an input method composes, and is not meant for the list.
    await page.evaluate(`document.activeElement.dispatchEvent(
      new KeyboardEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true }))`)
    expect(page.url()).toContain('/settings')
    await page.keyboard.press('Enter')
    await page
      .getByRole('button', { name: 'Try it' })
      .or(page.getByRole('link', { name: 'Try it' }))
      .waitFor()

    await expect.poll(() => focused(page)).toBe('h1 Graph')
    expect(page.url()).toContain('/graph/solo')
    expect(complaints).toEqual([])
  })

  test('Ctrl+K takes every letter from the first on, and none gets into what had the focus', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url)

    await page.getByRole('textbox', { name: 'Message' }).focus()
    await page.keyboard.press('Control+k')
    await page.keyboard.type('settings')
    await page.keyboard.press('Enter')

    await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
    expect(server.provider.modelRequests).toEqual([])
  })

  test('the graph shows what the server says of an agent', async () => {
    const server = await startTestServer({ agencies: soloAgency(), exposeInstructions: true })
    const { page, barriers } = await open(server.url, { at: '/graph' })

    await page.getByRole('group', { name: 'Agent Solo' }).click()
    await page.getByText('You are the secret instructions.').waitFor()

    expect(await barriers()).toEqual([])
  })

  test('the theme is what was chosen, also after a reload', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url, { colorScheme: 'light' })
    const background = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
    await page.getByRole('textbox', { name: 'Message' }).waitFor()
    const light = await background()

    await page.getByRole('button', { name: 'Theme' }).click()
    await page.getByRole('menuitem', { name: 'Dark' }).click()
    const dark = await background()
    await page.reload()
    await page.getByRole('textbox', { name: 'Message' }).waitFor()

    expect(dark).not.toBe(light)
    expect(await background()).toBe(dark)
  })
})
