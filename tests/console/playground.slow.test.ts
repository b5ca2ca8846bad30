import { Agency, Agent, tool } from '@bureau/framework'
import { setTimeout } from 'node:timers/promises'
import type { Locator, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { failed, hold, reasoning, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { startPrefixProxy } from '../support/prefix-proxy.ts'
import { soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'
import { answered, canBrowse, consoleBrowser, focused, say } from './support/console-page.ts'

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
})

/** Front may ask Expert, and hand over to Support. */
function teamAgency(): { team: Agency } {
  const make = (name: string, more: object = {}): Agent =>
    new Agent({ name, description: `${name} of the team.`, instructions: 'Help.', model: 'gpt-test', ...more })
  const expert = make('Expert', { tools: [add] })
  const support = make('Support')
  const front = make('Front', {
    handoffs: [support],
    conversationStarters: ['What is 19 + 23?'],
    quickReplies: ['And doubled?'],
  })
  return { team: new Agency({ name: 'Team', entryPoint: front, flows: [[front, expert]] }) }
}

/** JavaScript for a page, with what its browser keeps of chats as `chats` and `turns`. */
const withChats = (work: string): string => `(async () => {
  const [{ name }] = await indexedDB.databases()
  const settled = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)))
  const database = await settled(indexedDB.open(name))
  const transaction = database.transaction(['chats', 'turns'], 'readwrite')
  const [chats, turns] = ['chats', 'turns'].map((store) => transaction.objectStore(store))
  try { ${work} } finally { database.close() }
})()`

const KEPT_CHATS = withChats('return JSON.stringify(await Promise.all([chats.getAll(), turns.getAll()].map(settled)))')

const MANY_CHATS = withChats(`
  for (let n = 0; n < 250; n++)
    chats.put({ id: 'c' + n, agency: 'solo', title: 'Chat ' + n, options: {}, earlier: [], updatedAt: 1000 - n })
  await new Promise((resolve) => (transaction.oncomplete = resolve))
`)

/** Another tab of the chat in a page, once it shows these words of the answer too. */
async function secondTab(page: Page, words: string): Promise<Page> {
  const second = await page.context().newPage()
  await second.goto(page.url())
  await second.getByText(words).waitFor()
  return second
}

/** Which lines of a graph have a point within a card, a few pixels from its edges. */
const LINES_BEHIND_CARDS = `(() => {
  const cards = [...document.querySelectorAll('.react-flow__node')].map((card) => card.getBoundingClientRect())
  return [...document.querySelectorAll('.react-flow__edge-path')].filter((line) => {
    const points = Array.from({ length: 101 }, (_, at) => line.getPointAtLength((at / 100) * line.getTotalLength())
      .matrixTransform(line.getScreenCTM()))
    return points.some(({ x, y }) => cards.some(({ left, right, top, bottom }) =>
      x > left + 3 && x < right - 3 && y > top + 3 && y < bottom - 3))
  }).map((line) => line.id)
})()`

/** Writes `Hello` and presses Enter as soon as there is a field, before React has done all that follows. */
const WRITE_AT_ONCE = `new MutationObserver((_changes, watch) => {
  const field = document.querySelector('textarea')
  if (!field) return
  watch.disconnect()
  field.focus()
  document.execCommand('insertText', false, 'Hello')
  field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }))
}).observe(document, { childList: true, subtree: true })`

/** Nothing is going on any more. */
const idle = (page: Page): Promise<void> => page.getByRole('button', { name: 'Send again' }).last().waitFor()

const lastBody = ({ provider }: TestServer) => provider.modelRequests.at(-1)!

describe.skipIf(!canBrowse)('the playground', () => {
  const open = consoleBrowser()

  test('shows a starter, tool calls, a nested conversation as a tree, its usage, and quick replies', async () => {
    const server = await startTestServer({ agencies: teamAgency() })
    server.provider.script([
      toolCall('send_message', { recipient_agent: 'Expert', message: 'Add 19 and 23.' }),
      toolCall('add', { a: 19, b: 23 }),
      text('The sum is 42.'),
      text('It is **42**.'),
    ])
    const { page, complaints, barriers } = await open(server.url)

    await page.getByRole('button', { name: 'What is 19 + 23?' }).click()
    await answered(page, '42')
    await idle(page)

    const nested = page.locator('details', { hasText: 'Front → Expert' }).first()
    expect(await nested.getByText('The sum is 42.').isVisible()).toBe(true)
    await nested.getByText('add', { exact: true }).click()
    expect(await nested.getByRole('group', { name: 'Arguments' }).innerText()).toContain('a: 19')
    expect(await nested.getByRole('group', { name: 'Result' }).innerText()).toBe('42')
    expect(await page.getByText(/\d+ tokens/).isVisible()).toBe(true)
    expect(await page.getByRole('button', { name: 'And doubled?' }).isVisible()).toBe(true)
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test('Enter sends what is written, however soon after the field is there', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Welcome.')])
    const { page } = await open(server.url, { at: '/runs' })
    await page.getByRole('heading', { name: 'Runs', level: 1 }).waitFor()

    await page.evaluate(WRITE_AT_ONCE)
    await page.getByRole('link', { name: 'Playground', exact: true }).click()
    await answered(page, 'Welcome.')

    expect(lastBody(server).lastUserText).toBe('Hello')
    expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('')
  })

  test('streams, stops at the server, and sends the message again after it was edited', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Once upon', hold(gate), ' a time']), text('A short one.')])
    const { page } = await open(server.url)

    await say(page, 'A story')
    await page.getByText('Once upon').waitFor()
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await server.provider.waitForAborts(1)
    await idle(page)
    await page.getByRole('button', { name: 'Edit and send again' }).click()
    await page.getByRole('textbox', { name: 'Edit the message' }).fill('A short story')
    await page.getByRole('button', { name: 'Send again' }).first().click()
    await answered(page, 'A short one.')

    expect(lastBody(server).lastUserText).toBe('A short story')
    expect(JSON.stringify(lastBody(server).body)).not.toContain('Once upon')
    // The list of chats has the new title when the chat is kept.
    await expect.poll(() => page.getByText('A story', { exact: true }).count()).toBe(0)
  })

  test('Escape leaves the edit of a message as it was, and is back at its button', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('One.')])
    const { page } = await open(server.url)
    const field = page.getByRole('textbox', { name: 'Edit the message' })

    await say(page, 'First')
    await idle(page)
    await page.getByRole('button', { name: 'Edit and send again' }).click()
    await field.fill('Second')
    await page.evaluate(`document.activeElement.dispatchEvent(
      new KeyboardEvent('keydown', { key: 'Escape', isComposing: true, bubbles: true }))`)
    expect(await field.inputValue()).toBe('Second')
    await field.press('Escape')

    await field.waitFor({ state: 'detached' })
    expect(await focused(page)).toBe('button Edit and send again')
    await page.getByText('First', { exact: true }).last().waitFor()
  })

  test('loses nothing when it is loaded again while a run goes on, and goes on with the same chat', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['The first half,', hold(gate), ' and the second.']), text('You said hello.')])
    const { page, complaints } = await open(server.url)

    await say(page, 'Hello')
    await page.getByText('The first half,').waitFor()
    await page.reload()
    await page.getByText('The first half,').waitFor()
    gate.release()
    await answered(page, 'The first half, and the second.')
    await idle(page)
    await page.reload()
    await answered(page, 'The first half, and the second.')
    await say(page, 'What did I say?')
    await answered(page, 'You said hello.')

    expect(server.provider.modelRequests).toHaveLength(2)
    expect(JSON.stringify(lastBody(server).body)).toContain('The first half, and the second.')
    expect(complaints).toEqual([])
  })

  test('a message that is written while a run goes on is sent when it has ended', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', hold(gate), '.']), text('Two.')])
    const { page } = await open(server.url)

    await say(page, 'First')
    await page.getByText('One').waitFor()
    await say(page, 'Second')
    await page.getByText('is sent when the run has ended', { exact: true }).waitFor()
    expect(server.provider.modelRequests).toHaveLength(1)
    gate.release()
    await answered(page, 'Two.')

    expect(lastBody(server).lastUserText).toBe('Second')
  })

  test('several messages that are written while a run goes on are sent together, and an input method may be left', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', hold(gate), ' and all.']), text('Two.')])
    const { page } = await open(server.url)

    await say(page, 'First')
    await page.getByText('One').waitFor()
    await say(page, 'Second')
    await say(page, 'Third')
    await page.evaluate(`document.querySelector('textarea').dispatchEvent(
      new KeyboardEvent('keydown', { key: 'Escape', isComposing: true, bubbles: true }))`)
    gate.release()
    await answered(page, 'One and all.')
    await answered(page, 'Two.')

    expect(lastBody(server).lastUserText).toBe('Second\n\nThird')
  })

  test('a message that waits behind a run that fails or is stopped stays, and is sent behind the next answer or by hand', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gates = [server.provider.gate(), server.provider.gate()]
    server.provider.script([
      [textDeltas(['One', hold(gates[0]!)]), failed('server_error', 'down')],
      text('One again.'),
      text('Two.'),
      textDeltas(['Three', hold(gates[1]!)]),
      text('Four.'),
    ])
    const { page, barriers } = await open(server.url)
    const queued = page.getByRole('group', { name: 'Next message' })

    await say(page, 'First')
    await page.getByText('One').waitFor()
    await say(page, 'Second')
    gates[0]!.release()
    await page.getByRole('alert').waitFor()
    expect(await queued.innerText()).toContain('Second')
    expect(await barriers()).toEqual([])
    await page.getByRole('button', { name: 'Send again', exact: true }).click()
    await answered(page, 'Two.')
    await idle(page)
    await say(page, 'Third')
    await page.getByText('Three').waitFor()
    await say(page, 'Fourth')
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await queued.getByRole('button', { name: 'Send now' }).click()
    await answered(page, 'Four.')

    expect(server.provider.modelRequests.map(({ lastUserText }) => lastUserText)).toEqual([
      'First',
      'First',
      'Second',
      'Third',
      'Fourth',
    ])
    expect(await queued.count()).toBe(0)
  })

  test('a message that is taken back is written again, before what is written already, and stays over other pages', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', hold(gate), ' and all.'])])
    const { page } = await open(server.url)
    const field = page.getByRole('textbox', { name: 'Message' })

    await say(page, 'First')
    await page.getByText('One').waitFor()
    await say(page, 'Second')
    await field.fill('Third')
    await page.getByRole('button', { name: 'Take back' }).click()
    expect(await field.inputValue()).toBe('Second\n\nThird')
    await expect.poll(() => focused(page)).toBe('textarea Message')
    gate.release()
    await answered(page, 'One and all.')
    await idle(page)
    await page.getByRole('link', { name: 'Runs' }).click()
    await page.getByRole('heading', { name: 'Runs', level: 1 }).waitFor()
    await page.goBack()

    await answered(page, 'One and all.')
    expect(await field.inputValue()).toBe('Second\n\nThird')
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('a message that waits is in the field when the page is loaded again before its turn has come', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', hold(gate), ' and all.']), text('Two.')])
    const { page } = await open(server.url)
    const field = page.getByRole('textbox', { name: 'Message' })

    await say(page, 'First')
    await page.getByText('One').waitFor()
    await say(page, 'Second')
    await expect.poll(async () => (await page.evaluate<string>(KEPT_CHATS)).includes('Second')).toBe(true)
    await page.reload()
    await page.getByText('One').waitFor()
    expect(await field.inputValue()).toBe('Second')
    gate.release()
    await answered(page, 'One and all.')
    await idle(page)
    await field.press('Enter')
    await answered(page, 'Two.')
    await idle(page)
    await page.reload()
    await answered(page, 'Two.')

    expect(await field.inputValue()).toBe('')
  })

  test('works in a browser that forbids pages to keep anything, as long as the page lasts', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('One.'), text('Two.')])
    const { page, complaints } = await open(server.url)
    await page.context().addInitScript(`for (const name of ['localStorage', 'sessionStorage', 'indexedDB'])
      Object.defineProperty(window, name, { get: () => { throw new DOMException('No.', 'SecurityError') } })`)
    await page.reload()

    await say(page, 'First')
    await answered(page, 'One.')
    await idle(page)
    await page.getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
    await page.goBack()
    await say(page, 'Second')
    await answered(page, 'Two.')

    expect(JSON.stringify(lastBody(server).body)).toContain('One.')
    expect(complaints).toEqual([])
  })

  test('a message is sent and its chat kept also after the browser has closed what it keeps chats in', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('One.'), text('Two.')])
    const { page, complaints } = await open(server.url)
    await say(page, 'First')
    await answered(page, 'One.')
    await idle(page)

    const browser = await page.context().newCDPSession(page)
    await browser.send('Storage.clearDataForOrigin', { origin: server.url, storageTypes: 'indexeddb' })
    await say(page, 'Second')
    await answered(page, 'Two.')
    await idle(page)
    await page.reload()
    await answered(page, 'Two.')

    expect(await page.getByText('One.', { exact: true }).count()).toBe(1)
    expect(complaints).toEqual([])
  })

  test('a chat is deleted by whoever confirms it; where nothing hovers, the button for it is seen', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('One.')])
    const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }
    const { page } = await open(server.url, phone)
    const questions: string[] = []
    page.on('dialog', (dialog) => {
      questions.push(dialog.message())
      void (questions.length === 1 ? dialog.dismiss() : dialog.accept())
    })
    await say(page, 'Hello')
    await idle(page)
    await page.getByRole('button', { name: 'Chats', exact: true }).click()
    const button = page.getByRole('dialog').getByRole('button', { name: 'Delete Hello' })

    await button.waitFor()
    const opacity = `getComputedStyle(document.querySelector('[role=dialog] [aria-label="Delete Hello"]')).opacity`
    expect(await page.evaluate<string>(opacity)).toBe('1')
    await button.click()
    expect(questions).toEqual(['Delete "Hello"? It is in this browser alone.'])
    expect(await button.count()).toBe(1)
    await button.click()

    await button.waitFor({ state: 'detached' })
  })

  test('a chat that is deleted while its run goes on stays deleted', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Half', hold(gate), ' and whole.']), text('Yes.')])
    const { page } = await open(server.url)

    await say(page, 'Hello')
    await page.getByText('Half').waitFor()
    page.on('dialog', (dialog) => void dialog.accept())
    await page.getByRole('button', { name: 'Delete Hello' }).click()
    await page.getByText('Half').waitFor({ state: 'detached' })
    gate.release()
    await say(page, 'Anybody?')
    await answered(page, 'Yes.')
    await idle(page)
    await page.reload()
    await answered(page, 'Yes.')

    const chats = page.getByRole('navigation', { name: 'Chats' }).getByRole('button', { name: /^Delete / })
    expect(await chats.count()).toBe(1)
    expect(await chats.getAttribute('aria-label')).toBe('Delete Anybody?')
  })

  test('a chat that is deleted in another tab while its run goes on stays deleted, until somebody goes on with it', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([text('Good day.'), textDeltas(['Half', hold(gate), ' and whole.']), text('Yes.')])
    const { page } = await open(server.url)
    await say(page, 'Hello')
    await idle(page)
    await say(page, 'Tell me')
    await page.getByText('Half').waitFor()
    const other = await page.context().newPage()
    other.on('dialog', (dialog) => void dialog.accept())
    await other.goto(`${server.url}/console/#/play/solo`)

    await other.getByRole('button', { name: 'Delete Hello' }).click()
    const listed = page.getByRole('button', { name: 'Delete Hello' })
    await listed.waitFor({ state: 'detached' })
    gate.release()
    await answered(page, 'Half and whole.')
    await idle(page)
    await other.reload()
    await other.getByText('Chats stay in this browser.').waitFor()
    await say(page, 'Still here?')
    await answered(page, 'Yes.')
    await listed.waitFor()
    await idle(page)
    await page.reload()
    await answered(page, 'Yes.')

    expect(await page.getByText('Good day.', { exact: true }).count()).toBe(1)
    expect(JSON.stringify(lastBody(server).body)).toContain('Half and whole.')
  })

  test('of hundreds of chats the latest are listed, and older ones behind them', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url)
    await page.getByText('Chats stay in this browser.').waitFor()
    await page.evaluate(MANY_CHATS)
    await page.reload()

    const chats = page.getByRole('navigation', { name: 'Chats' }).getByRole('button', { name: /^Delete Chat/ })
    await expect.poll(() => chats.count()).toBe(100)
    await page.getByRole('button', { name: 'Older chats' }).click()
    await page.getByRole('button', { name: 'Older chats' }).click()
    await expect.poll(() => chats.count()).toBe(250)
    expect(await page.getByRole('button', { name: 'Older chats' }).count()).toBe(0)
  })

  test('files that are dropped one after the other are all sent', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url)
    await page.getByRole('textbox', { name: 'Message' }).waitFor()

    await page.evaluate(`for (const name of ['a.txt', 'b.txt']) {
      const dataTransfer = new DataTransfer()
      dataTransfer.items.add(new File(['Hello'], name))
      document.querySelector('textarea').dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }))
    }`)
    const removes = page.getByRole('button', { name: /^Remove / })
    await expect.poll(() => removes.count()).toBe(2)
  })

  test('text that is dropped on the field is written there', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('carry')])
    const { page } = await open(server.url)

    await say(page, 'Hello')
    await answered(page, 'carry')
    const word = { x: 10, y: 10 }
    await page.getByText('carry', { exact: true }).dblclick({ position: word })
    await page
      .getByText('carry', { exact: true })
      .dragTo(page.getByRole('textbox', { name: 'Message' }), { sourcePosition: word })

    expect((await page.getByRole('textbox', { name: 'Message' }).inputValue()).trim()).toBe('carry')
  })

  test('files are sent with the message', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('I have read it.')])
    const { page } = await open(server.url)

    await page.getByLabel('Files', { exact: true }).setInputFiles({
      name: 'notes.txt',
      mimeType: 'text/plain',
      buffer: Buffer.from('Hello from a file'),
    })
    await page.getByRole('button', { name: 'Remove notes.txt' }).waitFor()
    await say(page, 'Read this')
    await answered(page, 'I have read it.')

    expect(JSON.stringify(lastBody(server).body)).toContain(Buffer.from('Hello from a file').toString('base64'))
  })

  test('reasoning opens, structured output is a tree, and HTML and pictures of a model stay text', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([
      [reasoning({ summary: ['I think about it.'] }), text('{"city":"Paris","days":3}')],
      text('<img src="http://evil.example/a.png" onerror="alert(1)"> ![map](http://evil.example/map.png)'),
    ])
    const { page, complaints } = await open(server.url)

    await say(page, 'Plan')
    await page.getByText('city: ').waitFor()
    await page.getByText('Reasoning', { exact: true }).click()
    expect(await page.getByText('I think about it.').isVisible()).toBe(true)
    await say(page, 'A picture')
    await page.getByText('picture: map http://evil.example/map.png').waitFor()

    expect(await page.locator('img').count()).toBe(0)
    expect(complaints).toEqual([])
  })

  test('an answer that nests deeper than anybody reads is text, and the page lives on', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('> '.repeat(5_000) + 'deep'), text('Fine.')])
    const { page, complaints } = await open(server.url)

    await say(page, 'Quote')
    await page.getByText(/> deep$/).waitFor()
    await say(page, 'Well?')
    await answered(page, 'Fine.')

    expect(complaints).toEqual([])
  })

  test('task lists have their boxes once, and the names of characters are the characters', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([
      text(
        '- [ ] wash &lt;b&gt;&nbsp;&amp; `&lt;`\n- [x] dry\n\n1. [x] &copy; [a](https://example.com/?a=1&amp;b=2)\n\n2. two',
      ),
    ])
    const { page, complaints } = await open(server.url)

    await say(page, 'List')
    await idle(page)

    const items = page.getByRole('log').getByRole('listitem')
    await items.first().waitFor()
    expect(await items.allInnerTexts()).toEqual(['wash <b>\u00A0& &lt;', 'dry', '© a', 'two'])
    const boxes = page.getByRole('log').getByRole('checkbox')
    expect(await boxes.evaluateAll((all) => all.map((box) => (box as { checked?: boolean }).checked))).toEqual([
      false,
      true,
      true,
    ])
    expect(await page.getByRole('link', { name: 'a', exact: true }).getAttribute('href')).toBe(
      'https://example.com/?a=1&b=2',
    )
    expect(complaints).toEqual([])
  })

  test('shows the events of a run, and the agent that is at work in the graph', async () => {
    const server = await startTestServer({ agencies: teamAgency() })
    const gate = server.provider.gate()
    server.provider.script([
      toolCall('send_message', { recipient_agent: 'Expert', message: 'Add.' }),
      textDeltas(['Let me', hold(gate), ' see.']),
      text('Done.'),
    ])
    const { page, complaints, barriers } = await open(server.url)

    await say(page, 'Ask the expert')
    await page.getByText('Let me').waitFor()
    await page.getByRole('button', { name: 'Graph' }).click()
    await page.locator('[data-active=true]', { hasText: 'Expert' }).waitFor()
    gate.release()
    await answered(page, 'Done.')
    expect(await barriers()).toEqual([])
    await page.getByRole('button', { name: 'Events' }).click()
    await page.getByRole('textbox', { name: 'Filter by type' }).fill('tool_called')
    await page.getByRole('button', { name: /tool_called/ }).click()

    expect(await page.getByRole('group', { name: 'tool_called' }).innerText()).toContain('name: "tool_called"')
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test('what is copied as curl works, with the history and the options of the chat', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('One.'), text('Two.'), text('Three.')])
    const { page } = await open(server.url, { permissions: ['clipboard-read', 'clipboard-write'] })

    await page.getByRole('button', { name: 'Options of this chat' }).click()
    await page.getByRole('textbox', { name: 'Additional instructions' }).fill("Answer in Ada's words.")
    await page.getByRole('button', { name: 'Use these' }).click()
    await say(page, 'First')
    await answered(page, 'One.')
    await say(page, 'Second')
    await answered(page, 'Two.')
    await idle(page)
    await page.getByRole('button', { name: 'More about this message' }).last().click()
    await page.getByRole('menuitem', { name: 'Copy as curl' }).click()
    const curl = await page.evaluate<string>('navigator.clipboard.readText()')

    const [, url, body] = /^curl -N (\S+) [^]*-d '([^]*)'$/.exec(curl)!
    await server.stream(url!.slice(server.url.length), body!.replaceAll(`'\\''`, "'")).then((stream) => stream.all())
    expect(lastBody(server).lastUserText).toBe('Second')
    expect(lastBody(server).instructions).toContain("Answer in Ada's words.")
    expect(JSON.stringify(lastBody(server).body)).toContain('One.')
  })

  test('asks for the token, says that a wrong one is wrong, and keeps a right one over a reload', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right-token' } })
    server.provider.script([text('Welcome.')])
    const { page, barriers } = await open(server.url)

    await page.getByLabel('Server token').fill('wrong-token')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('It is not valid.').waitFor()
    expect(await barriers()).toEqual([])
    await page.getByLabel('Server token').fill('right-token')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await say(page, 'Hello')
    await answered(page, 'Welcome.')
    await page.reload()
    await answered(page, 'Welcome.')
    const kept = await page.evaluate<string>('JSON.stringify(localStorage)')

    expect(kept).not.toContain('right-token')
  })

  test('works behind a prefix, on a phone, in the dark', async () => {
    const server = await startTestServer({ agencies: teamAgency(), serverUrl: 'http://127.0.0.1' })
    server.provider.script([text('Hello from the phone.')])
    const url = await startPrefixProxy(server.url, '/tools/bureau')
    const { page, complaints, barriers } = await open(url, {
      viewport: { width: 360, height: 720 },
      colorScheme: 'dark',
    })

    await say(page, 'Hello')
    await answered(page, 'Hello from the phone.')
    expect(await barriers()).toEqual([])
    const width = await page.evaluate<number>('document.documentElement.scrollWidth')
    const toolbar = await page.getByRole('region', { name: 'Chat with' }).locator('header').boundingBox()
    await page.getByRole('button', { name: 'More about this chat' }).click()
    await page.getByRole('menuitem', { name: 'Events' }).click()
    await page.getByRole('complementary', { name: 'Events' }).getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'Navigation' }).click()
    await page.getByRole('link', { name: 'Runs' }).click()
    await page.getByRole('link', { name: 'Hello' }).waitFor()

    expect(width).toBeLessThanOrEqual(360)
    expect(toolbar?.height).toBeLessThanOrEqual(50)
    expect(complaints).toEqual([])
  })

  test('on a phone, the graph is a list of the agents, who reaches whom, and each of them opens', async () => {
    const server = await startTestServer({ agencies: teamAgency() })
    const phone = { viewport: { width: 360, height: 720 } }
    const { page, barriers, complaints } = await open(server.url, { at: '/graph', ...phone })

    const agents = page.getByRole('list', { name: 'Agents' }).getByRole('button')
    await agents.first().waitFor()
    const listed = await agents.allInnerTexts()
    await agents.filter({ hasText: 'add' }).click()
    await page.getByRole('region', { name: 'Agent Expert' }).waitFor()

    expect(listed[0]).toMatch(/Front[^]*Messages[^]*Expert[^]*Hands over to[^]*Support/)
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test('what is long stays within a phone: names of tools, agents and agencies, and starters', async () => {
    const name = 'charge_the_card_of_the_customer_and_send_the_receipt_by_letter'
    const charge = tool({
      name,
      description: 'Pays.',
      parameters: z.object({}),
      needsApproval: true,
      execute: () => '',
    })
    const starter = 'Charge the card of the customer '.repeat(5)
    const entryPoint = new Agent({ name: 'Cashier'.repeat(9), tools: [charge], conversationStarters: [starter] })
    const server = await startTestServer({ agencies: { ['counter'.repeat(9)]: new Agency({ entryPoint }) } })
    server.provider.script([toolCall(name, {}), text('Charged.')])
    const { page } = await open(server.url, { viewport: { width: 390, height: 844 } })
    const ends = async (element: Locator): Promise<number> => {
      const { x, width } = (await element.boundingBox())!
      return x + width
    }

    const offer = page.getByRole('button', { name: starter.trim() })
    expect(await ends(offer)).toBeLessThanOrEqual(390)
    await offer.click()
    const approve = page.getByRole('button', { name: 'Approve' })
    await approve.waitFor()
    expect(await ends(page.getByText(name, { exact: true }).last())).toBeLessThanOrEqual(390)
    await approve.click()
    await answered(page, 'Charged.')
    expect(await ends(page.getByText(name, { exact: true }))).toBeLessThanOrEqual(390)
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBe(390)
    await page.goto(`${server.url}/console/#/graph`)
    expect(await ends(page.getByRole('link', { name: 'Try it' }))).toBeLessThanOrEqual(390)
    await page.goto(`${server.url}/console/#/runs`)
    await page.getByRole('heading', { name: 'Runs', level: 1 }).waitFor()
    expect(await ends(page.getByRole('combobox', { name: 'Agency' }))).toBeLessThanOrEqual(390)
  })

  test('what is written from right to left is shown so, beside what is not', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('مرحبا بك في باريس.\n\n- معطف خفيف\n\nWelcome to Paris.')])
    const { page } = await open(server.url)
    await say(page, 'مرحبا')
    await answered(page, 'Welcome to Paris.')

    const shown = await page.evaluate<string[]>(
      `[...document.querySelectorAll('main [dir]')].filter((element) => element.innerText).map((element) =>
        getComputedStyle(element).direction + ' ' + element.innerText)`,
    )
    expect(shown).toEqual(['rtl مرحبا', 'rtl مرحبا بك في باريس.', 'rtl معطف خفيف', 'ltr Welcome to Paris.'])
  })

  test('on a tablet, a panel beside the chat closes with its button, and the list of chats has a button of its own', async () => {
    const server = await startTestServer({ agencies: teamAgency() })
    const tablet = { viewport: { width: 768, height: 1024 } }
    const { page } = await open(server.url, { at: '/play/team?panel=events', ...tablet })

    const panel = page.getByRole('complementary', { name: 'Events' })
    await panel.getByRole('button', { name: 'Close' }).click()
    await panel.waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'More about this chat' }).click()
    await page.getByRole('menuitem', { name: 'Compare with another' }).press('Escape')
    await page.getByRole('button', { name: 'Chats' }).click()
    await page.getByRole('dialog', { name: 'Chats' }).waitFor()

    expect(await panel.count()).toBe(0)
  })

  test('the graph tells agents that are asked from those that take over', async () => {
    const server = await startTestServer({ agencies: teamAgency() })
    const { page, barriers, complaints } = await open(server.url, { at: '/graph' })

    const legend = page.getByRole('list', { name: 'Lines' }).getByRole('listitem')
    await legend.first().waitFor()
    expect(await legend.allInnerTexts()).toEqual(['Messages', 'Hands over to'])
    await page.locator('.react-flow__edge-path').nth(1).waitFor({ state: 'attached' })
    const lines = await page.evaluate<string[]>(
      `[...document.querySelectorAll('.react-flow__edge-path')].map((path) => getComputedStyle(path).strokeDasharray)`,
    )
    expect(new Set(lines).size).toBe(2)
    await page.getByRole('group', { name: 'Agent Front' }).click()
    const facts = page.getByRole('region', { name: 'Agent Front' }).getByRole('definition')
    expect((await facts.allInnerTexts()).slice(-2)).toEqual(['Expert', 'Support'])
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test('the graph joins two entry points that message each other by lines between their cards, not behind them', async () => {
    const make = (name: string): Agent => new Agent({ name, instructions: 'Help.', model: 'gpt-test' })
    const [desk, billing] = [make('Desk'), make('Billing')]
    const flows: [Agent, Agent][] = [
      [desk, billing],
      [billing, desk],
    ]
    const server = await startTestServer({ agencies: { shop: new Agency({ entryPoint: [desk, billing], flows }) } })
    const { page } = await open(server.url, { at: '/graph' })

    const lines = page.locator('.react-flow__edge-path')
    await lines.nth(1).waitFor({ state: 'attached' })
    const left = (await page.getByRole('group', { name: 'Agent Desk' }).boundingBox())!
    const right = (await page.getByRole('group', { name: 'Agent Billing' }).boundingBox())!
    const boxes = await Promise.all([lines.nth(0).boundingBox(), lines.nth(1).boundingBox()])

    for (const line of boxes) {
      expect(line!.x).toBeGreaterThanOrEqual(left.x + left.width - 2)
      expect(line!.x + line!.width).toBeLessThanOrEqual(right.x + 2)
    }
    expect(boxes[0]!.y).not.toBeCloseTo(boxes[1]!.y, 0)
  })

  test('no line of the graph runs behind a card, be it to a card above, beside or further along', async () => {
    const make = (name: string): Agent => new Agent({ name, instructions: 'Help.', model: 'gpt-test' })
    const [front, ann, bob, cid] = ['Front', 'Ann', 'Bob', 'Cid'].map(make) as [Agent, Agent, Agent, Agent]
    const down: [Agent, Agent][] = [ann, bob, cid].map((agent) => [front, agent])
    const flows: [Agent, Agent][] = [...down, [ann, cid], [cid, ann], [ann, bob], [bob, front], [cid, front]]
    const server = await startTestServer({ agencies: { shop: new Agency({ entryPoint: front, flows }) } })
    const { page } = await open(server.url, { at: '/graph' })
    await page.locator('.react-flow__edge-path').nth(7).waitFor({ state: 'attached' })

    expect(await page.evaluate(LINES_BEHIND_CARDS)).toEqual([])
  })

  test('no line of the graph runs behind a card that is between those which it joins, and a large agency is seen whole', async () => {
    const make = (name: string): Agent => new Agent({ name, instructions: 'Help.', model: 'gpt-test' })
    const [boss, head] = ['Boss', 'Head'].map(make) as [Agent, Agent]
    const workers = Array.from({ length: 42 }, (_, at) => make(`Worker ${at + 1}`))
    const down: [Agent, Agent][] = [[boss, head], ...workers.map((worker): [Agent, Agent] => [head, worker])]
    const up = workers.map((worker): [Agent, Agent] => [worker, boss])
    const server = await startTestServer({
      agencies: { firm: new Agency({ entryPoint: boss, flows: [...down, ...up] }) },
    })
    const { page } = await open(server.url, { at: '/graph' })
    await page.locator('.react-flow__edge-path').nth(84).waitFor({ state: 'attached' })
    const graph = (await page.getByLabel('Agents', { exact: true }).boundingBox())!
    const outside = async (): Promise<number> => {
      const cards = await Promise.all((await page.locator('.react-flow__node').all()).map((card) => card.boundingBox()))
      return cards.filter((card) => card!.x < graph.x || card!.x + card!.width > graph.x + graph.width).length
    }

    await expect.poll(outside).toBe(0)
    expect(await page.evaluate(LINES_BEHIND_CARDS)).toEqual([])
  })

  test('a second tab of the same chat shows the run and its end', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Half', hold(gate), ' and whole.'])])
    const { page } = await open(server.url)
    await say(page, 'Hello')
    await page.getByText('Half').waitFor()

    const second = await secondTab(page, 'Half')
    gate.release()

    await answered(second, 'Half and whole.')
    await answered(page, 'Half and whole.')
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('options that are changed in one tab while a run goes on are those of the other tab too, and stay', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Half', hold(gate), ' and whole.']), text('Two.')])
    const { page } = await open(server.url)
    await say(page, 'Hello')
    await page.getByText('Half').waitFor()
    const second = await secondTab(page, 'Half')
    const instructions = second.getByRole('textbox', { name: 'Additional instructions' })

    await page.getByRole('button', { name: 'Options of this chat' }).click()
    await page.getByRole('textbox', { name: 'Additional instructions' }).fill('Answer in French.')
    await page.getByRole('button', { name: 'Use these' }).click()
    await expect
      .poll(async () => {
        await second.getByRole('button', { name: 'Options of this chat' }).click()
        const text = await instructions.inputValue()
        await second.keyboard.press('Escape')
        return text
      })
      .toBe('Answer in French.')
    gate.release()
    for (const tab of [page, second]) await idle(tab)
    await say(second, 'And now?')
    await answered(second, 'Two.')

    expect(lastBody(server).instructions).toContain('Answer in French.')
  })

  test('messages that wait in two tabs of the same chat are sent one after the other, and neither is lost', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', hold(gate), '.']), text('Two.'), text('Three.')])
    const { page } = await open(server.url)
    await say(page, 'First')
    await page.getByText('One').waitFor()
    const second = await secondTab(page, 'One')

    for (const [tab, words] of [
      [page, 'Here'],
      [second, 'There'],
    ] as const) {
      await say(tab, words)
      await tab.getByText('is sent when the run has ended', { exact: true }).waitFor()
    }
    // The other tab learns of a message sooner than the server.
    await page.context().route('**/get_response_stream', (route) => setTimeout(1000).then(() => route.continue()))
    gate.release()
    await answered(page, 'Three.')
    await answered(second, 'Three.')
    await idle(page)
    await page.reload()
    await answered(page, 'Three.')

    const sent = server.provider.modelRequests.map(({ lastUserText }) => lastUserText)
    expect(sent.toSorted()).toEqual(['First', 'Here', 'There'])
    const said = ['First', 'One.', sent[1], 'Two.', sent[2]]
    expect(JSON.stringify(lastBody(server).body)).toMatch(new RegExp(said.join('.*')))
    for (const words of said) expect(await page.getByText(words!, { exact: true }).last().isVisible()).toBe(true)
  })

  test('a message that waits in one of two tabs is in the field of that tab when it is loaded again, whatever the other tab does', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', hold(gate), '.'])])
    const { page } = await open(server.url)
    await say(page, 'First')
    await page.getByText('One').waitFor()
    const second = await secondTab(page, 'One')
    for (const [tab, words] of [
      [page, 'Here'],
      [second, 'There'],
    ] as const) {
      await say(tab, words)
      await expect.poll(async () => (await tab.evaluate<string>(KEPT_CHATS)).includes(words)).toBe(true)
    }

    await second.getByRole('button', { name: 'Stop', exact: true }).click()
    for (const tab of [page, second]) await idle(tab)
    for (const tab of [page, second]) await tab.reload()
    for (const tab of [page, second]) await idle(tab)
    const field = { name: 'Message', exact: true }
    const written = await Promise.all([page, second].map((tab) => tab.getByRole('textbox', field).inputValue()))
    gate.release()

    expect(written).toEqual(['Here', 'There'])
  })

  test('a failing model is an error with what to do about it', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([[text('Half'), failed('server_error', 'the operator reads this')]])
    const { page } = await open(server.url)

    await say(page, 'Hello')
    const alert = page.getByRole('alert')
    await alert.waitFor()

    expect(await alert.innerText()).toContain('upstream_unavailable')
  })
})
