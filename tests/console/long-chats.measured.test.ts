import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { hold, text, textDeltas } from '../support/fake-provider.ts'
import { soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'
import { canBrowse, consoleBrowser } from './support/console-page.ts'
import { longestTasks } from './support/main-thread.ts'

/** What a person notices, in milliseconds. */
const NOTICED_MS = 50
const PER_SECOND = 500
const SECONDS = 5

/** Markdown as models write it: headings, lists, tables and code. */
const CHAPTER = readFileSync(new URL('../../docs/streams.md', import.meta.url), 'utf8')

/** Streams `PER_SECOND` deltas a second, which is as fast as any model is. */
async function streamFast({ provider }: TestServer, page: Page): Promise<void> {
  const words = CHAPTER.match(/.{1,4}/gsu)!
  const gates = Array.from({ length: SECONDS * 50 }, () => provider.gate())
  provider.script([
    textDeltas(gates.flatMap((gate, at) => [hold(gate), ...words.slice(at * 10, at * 10 + PER_SECOND / 50)])),
  ])
  await page.getByRole('textbox', { name: 'Message' }).fill('Tell me all of it')
  await page.keyboard.press('Enter')
  const startedAt = Date.now()
  for (const [at, gate] of gates.entries()) {
    const waitMs = startedAt + at * 20 - Date.now()
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
    gate.release()
  }
  await page.getByRole('button', { name: 'Send again' }).last().waitFor()
}

/** A chat of 2,500 messages and as many answers, as this browser keeps it. */
const KEEP_LONG_CHAT = `(async () => {
  const turns = Array.from({ length: 2500 }, (_, at) => {
    const answer = at === 1234 ? 'The needle is here.' : '**Answer ' + at + '** in a few words, with a list:\\n\\n- one\\n- two'
    const item = { type: 'message', role: 'assistant', id: 'msg-' + at, content: [{ type: 'output_text', text: answer }] }
    return { id: 'turn-' + at, text: 'Question ' + at, files: [], agent: null, run: null, status: 'completed', usage: null, error: null,
      startedAt: at, endedAt: at + 1, times: {}, messages: [{ role: 'user', content: 'Question ' + at }, item],
      parts: [{ id: 'msg-' + at, type: 'text', text: answer, state: 'done', agent: 'Solo', parent: null }] }
  })
  const chat = { id: 'clong', agency: 'solo', title: 'A long one', agent: null, options: {}, earlier: [], waits: false, updatedAt: Date.now() }
  const [{ name }] = await indexedDB.databases()
  const database = await new Promise((resolve) => {
    const opening = indexedDB.open(name)
    opening.onsuccess = () => resolve(opening.result)
  })
  await new Promise((resolve) => {
    const transaction = database.transaction(['chats', 'turns'], 'readwrite')
    transaction.objectStore('chats').put(chat)
    turns.forEach((turn, at) => transaction.objectStore('turns').put({ chat: 'clong', at, turn }))
    transaction.oncomplete = resolve
  })
  database.close()
})()`

describe.skipIf(!canBrowse)('long chats', () => {
  const open = consoleBrowser()

  async function openLongChat() {
    const server = await startTestServer({ agencies: soloAgency() })
    const opened = await open(server.url)
    await opened.page.getByRole('textbox', { name: 'Message' }).waitFor()
    await opened.page.evaluate(KEEP_LONG_CHAT)
    return { server, ...opened }
  }

  async function goToLongChat(page: Page, url: string): Promise<void> {
    await page.goto(`${url}/console/#/play/solo?chat=clong`)
    await page.getByText('Answer 2499').waitFor()
    await page.getByRole('button', { name: 'Find in this conversation' }).waitFor()
  }

  test('a stream of 500 deltas a second never holds the page up', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page, complaints } = await open(server.url)
    await page.getByRole('textbox', { name: 'Message' }).waitFor()

    const tasks = await longestTasks(page, () => streamFast(server, page))

    expect(tasks[0]).toBeLessThan(NOTICED_MS)
    expect(complaints).toEqual([])
  })

  test('nor does one at the end of a chat of 5,000 messages', async () => {
    const { server, page, complaints } = await openLongChat()
    await goToLongChat(page, server.url)

    const tasks = await longestTasks(page, () => streamFast(server, page))

    expect(tasks[0]).toBeLessThan(NOTICED_MS)
    expect(complaints).toEqual([])
  })

  test('a letter that is typed into a megabyte is there within a second', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url)
    const field = page.getByRole('textbox', { name: 'Message' })
    await field.fill('Lorem ipsum dolor. '.repeat(50_000))
    await field.press('Control+End')

    const tasks = await longestTasks(page, () => page.keyboard.type('a'))

    expect(tasks[0]).toBeLessThan(1_000)
    expect(await field.getAttribute('dir')).toBe('ltr')
  })

  test('a chat of 5,000 messages opens at its end and scrolls; of its messages only those that are seen exist', async () => {
    const { server, page, complaints, barriers } = await openLongChat()

    const opening = await longestTasks(page, () => goToLongChat(page, server.url))
    const log = page.getByRole('log', { name: 'Conversation' })
    const scrolling = await longestTasks(page, async () => {
      await log.focus()
      for (let times = 0; times < 20; times += 1) await page.keyboard.press('PageUp')
      await expect
        .poll(
          async () => {
            // What moves already goes on where it was going.
            await page.keyboard.press('Home')
            return page.getByText('Question 0', { exact: true }).count()
          },
          { interval: 500 },
        )
        .toBe(1)
    })

    expect(await log.getByText(/^Question \d+$/).count()).toBeLessThan(60)
    expect(await page.getByText('Answer 2499').count()).toBe(0)
    await page.getByRole('button', { name: 'To the end' }).click()
    await page.getByText('Answer 2499').waitFor()
    expect(opening[0]).toBeLessThan(2 * NOTICED_MS)
    expect(scrolling[0]).toBeLessThan(NOTICED_MS)
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test('Ctrl+F searches all of it, by keyboard alone', async () => {
    const { server, page, complaints, barriers } = await openLongChat()
    await goToLongChat(page, server.url)

    await page.keyboard.press('Control+f')
    await page.keyboard.type('the needle')
    await page.getByText('The needle is here.').waitFor()
    await page.getByRole('status').getByText('1 of 1').waitFor()
    expect(await page.evaluate(`CSS.highlights.get('found').size`)).toBe(1)
    expect(await barriers()).toEqual([])
    await page.getByRole('textbox', { name: 'Find in this conversation' }).fill('question 12')
    await page.getByRole('status').getByText('1 of 111').waitFor()
    await page.getByText('Question 12', { exact: true }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByText('Question 120', { exact: true }).waitFor()
    await page.keyboard.press('Shift+Enter')
    await page.keyboard.press('Shift+Enter')
    await page.getByText('Question 1299', { exact: true }).waitFor()
    await page.keyboard.press('Escape')

    expect(await page.getByRole('search').count()).toBe(0)
    expect(complaints).toEqual([])
  })

  test('what somebody is writing far up stays while he scrolls away, and the end is followed again', async () => {
    const { server, page } = await openLongChat()
    await goToLongChat(page, server.url)
    await page.getByRole('log', { name: 'Conversation' }).focus()
    await page.keyboard.press('Home')
    await page.getByRole('button', { name: 'Edit and send again' }).first().click()
    const edited = page.getByRole('textbox', { name: 'Edit the message' })
    await edited.fill('Half a thought')

    await page.getByRole('button', { name: 'To the end' }).evaluate((button) => (button as { click(): void }).click())
    await page.getByText('Answer 2499').waitFor()

    expect(await edited.inputValue()).toBe('Half a thought')
    server.provider.script([text('Welcome to the end.')])
    await page.getByRole('textbox', { name: 'Message', exact: true }).fill('Hello')
    await page.keyboard.press('Enter')
    await page.getByText('Welcome to the end.').waitFor()
  })
})
