import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { ENGINES } from '../db/engines.contract.ts'
import { SWEEP_NAMES, sweepExpired } from '../db/sweep-expired.ts'
import { listRuns, getRun } from '../run-records/read-runs.ts'
import type { HistoryMessage } from '../runs/admit/read-run-context.ts'
import { startRun } from '../runs/execute/start-run.ts'
import { requestCancel } from '../run-records/request-cancel.ts'
import { answer, modelCall } from '../test-store.contract.ts'
import { codeOf, useTenant, useTestStore } from '../use-test-store.contract.ts'
import type { NewAttachment } from './attachments.repo.ts'
import { findRequestStatus, getChatStatus } from './chat-status.ts'
import { listMessages } from './list-messages.ts'
import { createChat, deleteChat, getChat, listChats, updateChat } from './manage-chats.ts'
import { noteAttachments } from './note-attachment.ts'

const file = (url: string): NewAttachment => ({ kind: 'input_file', filename: 'r.pdf', detail: null, source: { url } })
const REPORT = 'https://files.example.com/r.pdf'

describe.each(ENGINES)('chats on %s', (engine) => {
  const platform = useTestStore(engine)
  const tenant = useTenant(platform)

  const chatKey = (chatId: string, of = tenant) => ({ ownerId: of.ownerId, chatId, integrationIds: null })
  const history = async (chatId: string) =>
    (await platform.db.run(listMessages, { ...chatKey(chatId), order: 'asc', limit: 100, after: null })).items

  test('an empty chat is idle and waits for a request', async () => {
    const { ownerId, integrationId } = tenant
    const { chatId } = await platform.db.run(createChat, { ownerId, integrationId })
    expect(await platform.db.run(getChat, chatKey(chatId))).toMatchObject({
      object: 'chat',
      chatState: 'idle',
      firstMessage: null,
      messageCount: 0,
      lastRunId: null,
    })
    expect(await platform.db.run(getChatStatus, chatKey(chatId))).toMatchObject({
      run: null,
      recovery: { action: 'new_request' },
    })
  })

  test("a chat in another owner's integration is refused, and another owner's chat does not exist", async () => {
    const stranger = await platform.addTenant()
    const foreign = { ownerId: stranger.ownerId, integrationId: tenant.integrationId }
    expect(await codeOf(platform.db.run(createChat, foreign))).toBe('integration_not_found')
    const { run } = await tenant.admit()
    const key = chatKey(run.chatId, stranger)
    expect(await codeOf(platform.db.run(getChat, key))).toBe('chat_not_found')
    expect(await codeOf(platform.db.run(getChatStatus, key))).toBe('chat_not_found')
    expect(await codeOf(platform.db.run(deleteChat, { ...key, actor: 'x' }))).toBe('chat_not_found')
    expect(await codeOf(platform.db.run(listMessages, { ...key, order: 'asc', limit: 1, after: null }))).toBe(
      'chat_not_found',
    )
    expect(await codeOf(platform.db.run(getRun, { ...key, runId: run.runId, output: false }))).toBe('run_not_found')
  })

  test('a key that is restricted to another integration sees neither chat nor run', async () => {
    const { run } = await tenant.admit()
    const reach = { ownerId: tenant.ownerId, integrationIds: ['int_other'] }
    expect(await codeOf(platform.db.run(getChat, { ...reach, chatId: run.chatId }))).toBe('chat_not_found')
    expect(await codeOf(platform.db.run(getRun, { ...reach, runId: run.runId, output: false }))).toBe('run_not_found')
    const page = { ...reach, limit: 10, after: null }
    expect((await platform.db.run(listChats, page)).items).toEqual([])
    expect((await platform.db.run(listRuns, page)).items).toEqual([])
  })

  test('the status of a request follows its run', async () => {
    const { ownerId, integrationId } = tenant
    const ask = () => platform.db.run(findRequestStatus, { ownerId, integrationId, usageRequestId: 'follow' })
    expect(await codeOf(ask())).toBe('usage_request_not_found')
    const admission = await tenant.admit({ usageRequestId: 'follow', aliasChatId: 'desk' })
    const { runId, chatId } = admission.run
    expect(await ask()).toMatchObject({
      chatId,
      aliasChatId: 'desk',
      chatState: 'busy',
      activeRunId: runId,
      run: { runId, status: 'running' },
      recovery: { action: 'attach' },
    })
    await tenant.start(admission)
    await platform.db.run(requestCancel, { ownerId, runId, mode: 'after_turn' })
    expect(await ask()).toMatchObject({ run: { status: 'cancelling' }, recovery: { action: 'wait' } })
    await tenant.finish(admission, { items: [answer('Done.')], calls: [modelCall(1)] })
    expect(await ask()).toMatchObject({
      chatState: 'idle',
      run: { status: 'completed', usage: { request_count: 1 } },
      recovery: { action: 'use_result' },
    })
    const key = { ownerId, runId, integrationIds: null }
    expect(await platform.db.run(getRun, { ...key, output: true })).toMatchObject({
      outputText: 'Done.',
      newMessages: [{ role: 'assistant', agent: 'CEO' }],
    })
  })

  test('lists the latest activity first, page by page, and filters', async () => {
    const owner = await platform.addTenant()
    const opened = []
    for (const consumerId of ['ada', 'bob', 'ada', 'bob', 'ada']) {
      const admission = await owner.admit({ consumerId, aliasChatId: `${consumerId}-${opened.length}` })
      opened.push(admission.run.chatId)
    }
    const list = (limit: number, after: readonly [string, string] | null, filter = {}) =>
      platform.db.run(listChats, { ownerId: owner.ownerId, integrationIds: null, limit, after, ...filter })
    const one = await list(3, null)
    const two = await list(3, one.next)
    expect([...one.items, ...two.items].map((chat) => chat.chatId)).toEqual(opened.toReversed())
    expect(two.next).toBeNull()
    expect((await list(10, null, { consumerId: 'bob' })).items).toHaveLength(2)
    expect((await list(10, null, { aliasChatId: 'ada-2' })).items).toMatchObject([
      { chatState: 'busy', lastRunStatus: 'running' },
    ])
    const { updatedAt } = one.items[1]!
    expect((await list(10, null, { updatedAfter: updatedAt })).items).toHaveLength(1)
  })

  test('a chat is known by the beginning of what its user said first', async () => {
    const first = await tenant.admit({ message: `Where is the order? ${'x'.repeat(300)}` })
    const { chatId } = first.run
    await tenant.finish(first, { items: [answer('On its way.')] })
    await tenant.admit({ chatId, message: 'When does it arrive?' })
    const wordless = await tenant.admit({ message: '', attachments: [file(`${REPORT}?sig=1`)] })

    const shown = `Where is the order? ${'x'.repeat(180)}`
    expect(await platform.db.run(getChat, chatKey(chatId))).toMatchObject({ firstMessage: shown })
    expect(await platform.db.run(getChat, chatKey(wordless.run.chatId))).toMatchObject({ firstMessage: '' })
    const { ownerId } = tenant
    const list = await platform.db.run(listChats, { ownerId, integrationIds: null, limit: 2, after: null })
    expect(list.items.map(({ firstMessage }) => firstMessage)).toEqual(['', shown])
  })

  test('title and alias can be changed; an alias of another chat is refused', async () => {
    const [one, two] = [await tenant.admit({ aliasChatId: 'taken' }), await tenant.admit()]
    const change = (chatId: string, changes: { title?: string | null; aliasChatId?: string | null }) =>
      platform.db.run(updateChat, { ...chatKey(chatId), changes })
    expect(await change(two.run.chatId, { title: 'Plan', aliasChatId: 'mine' })).toMatchObject({
      title: 'Plan',
      aliasChatId: 'mine',
    })
    expect(await codeOf(change(two.run.chatId, { aliasChatId: 'taken' }))).toBe('alias_in_use')
    await change(one.run.chatId, { aliasChatId: null })
    expect(await change(two.run.chatId, { aliasChatId: 'taken' })).toMatchObject({
      aliasChatId: 'taken',
      title: 'Plan',
    })
  })

  test('a chat can be deleted when it is idle; its alias is free and its content is erased by the sweeps', async () => {
    const admission = await tenant.admit({ aliasChatId: 'gone', attachments: [file(`${REPORT}?sig=1`)] })
    const { chatId } = admission.run
    const remove = () => platform.db.run(deleteChat, { ...chatKey(chatId), actor: 'key_1' })
    expect(await codeOf(remove())).toBe('run_active')
    await tenant.finish(admission, { items: [answer('x')] })
    await remove()
    expect(await codeOf(platform.db.run(getChat, chatKey(chatId)))).toBe('chat_not_found')
    expect(await codeOf(tenant.admit({ chatId }))).toBe('chat_not_found')
    expect((await tenant.admit({ aliasChatId: 'gone' })).run.chatId).not.toBe(chatId)

    for (const name of SWEEP_NAMES) await platform.db.run(sweepExpired, name)
    const left = await platform.rows(`SELECT 1 FROM messages WHERE chat_id = '${chatId}'
      UNION ALL SELECT 1 FROM message_attachments WHERE chat_id = '${chatId}'`)
    expect(left).toEqual([])
    const { runId } = admission.run
    const key = { ownerId: tenant.ownerId, runId, integrationIds: null, output: true }
    expect(await platform.db.run(getRun, key)).toMatchObject({ status: 'completed', newMessages: [] })
  })

  test('messages are listed by number, from either end or after one', async () => {
    const first = await tenant.admit({ message: 'one' })
    const { chatId } = first.run
    await tenant.finish(first, { items: [answer('two'), answer('three')] })
    const list = (order: 'asc' | 'desc', more = {}) =>
      platform.db.run(listMessages, { ...chatKey(chatId), order, limit: 2, after: null, ...more })
    const page = await list('asc')
    expect(page.items.map((message) => [message.seq, message.role, message.agent])).toEqual([
      [1, 'user', null],
      [2, 'assistant', 'CEO'],
    ])
    expect((await list('asc', { after: page.next })).items.map((message) => message.seq)).toEqual([3])
    expect((await list('desc')).items.map((message) => message.seq)).toEqual([3, 2])
    expect((await list('asc', { afterSeq: 2 })).items.map((message) => message.seq)).toEqual([3])
  })

  describe('attachments', () => {
    const startAndRead = async (runId: string): Promise<readonly HistoryMessage[]> => {
      const { ownerId } = tenant
      const dataKey = await platform.store.dataKeys.of(ownerId)
      const begun = await platform.db.run(startRun, {
        ownerId,
        runId,
        bootId: platform.bootId,
        agencyVersion: null,
        dataKey,
      })
      return begun.outcome === 'started' ? begun.context.history : []
    }
    test('a model gets the latest whole turns of a long chat, and the message to answer however long it is', async () => {
      const long = (): string => randomBytes(22_500).toString('base64') // 30,000 characters that cannot be compressed
      const first = await tenant.admit({ message: 'turn 0' })
      const { chatId } = first.run
      await tenant.finish(first, { items: [answer('an answer')] })
      for (let turn = 1; turn <= 10; turn++) {
        const admission = await tenant.admit({ chatId, message: `turn ${turn}` })
        await tenant.finish(admission, { items: [answer(long()), answer(long())] })
      }
      const asked = async (message: string): Promise<(string | undefined)[]> => {
        const admission = await tenant.admit({ chatId, message })
        const history = await startAndRead(admission.run.runId)
        expect(history[0]?.role).toBe('user')
        await tenant.finish(admission)
        const users = history.filter(({ role }) => role === 'user')
        return users.map(({ item }) => /turn \d+/.exec(JSON.stringify(item['content']))?.[0])
      }

      expect(await asked('now')).toEqual(['turn 5', 'turn 6', 'turn 7', 'turn 8', 'turn 9', 'turn 10', undefined])
      expect(await asked(long().repeat(20))).toEqual([undefined])
    })

    const contextOf = async (runId: string) =>
      (await startAndRead(runId)).flatMap((message) => message.attachments.map(({ sent, url }) => ({ sent, url })))

    test('those of a successful response are sent again, those of a failed one are not', async () => {
      const one = await tenant.admit({ attachments: [file(`${REPORT}?token=good`)] })
      const { chatId } = one.run
      expect(await contextOf(one.run.runId)).toEqual([{ sent: true, url: `${REPORT}?token=good` }])
      await tenant.finish(one, { items: [answer('fine')] })
      const two = await tenant.admit({ chatId, attachments: [file('https://files.example.com/bad.pdf')] })
      await tenant.finish(two, { state: 'failed', error: { code: 'attachment_type_mismatch' } })
      const three = await tenant.admit({ chatId })
      expect(await contextOf(three.run.runId)).toEqual([
        { sent: true, url: `${REPORT}?token=good` },
        { sent: false, url: null },
      ])
      const shown = (await history(chatId)).flatMap((message) => message.attachments)
      expect(shown).toMatchObject([
        { urlKey: REPORT, state: 'ok', inline: false, filename: 'r.pdf' },
        { urlKey: 'https://files.example.com/bad.pdf', state: 'excluded' },
      ])
    })

    test('those of a cancelled response are kept only if it said something', async () => {
      const states = async (items: ReturnType<typeof answer>[]) => {
        const admission = await tenant.admit({ attachments: [file(REPORT)] })
        await tenant.start(admission)
        await tenant.finish(admission, { state: 'cancelled', items })
        return (await history(admission.run.chatId)).flatMap((message) => message.attachments.map((one) => one.state))
      }
      expect(await states([answer('said')])).toEqual(['ok'])
      expect(await states([])).toEqual(['excluded'])
    })

    test('one that was refused later must be refreshed; every earlier use of the file gets the fresh address', async () => {
      const one = await tenant.admit({ attachments: [file(`${REPORT}?token=1`), file(`${REPORT}?token=2`)] })
      const { chatId, runId } = one.run
      const [asked] = await startAndRead(runId)
      const [id] = asked!.attachments.map((attachment) => attachment.id)
      await tenant.finish(one, { items: [answer('ok')] })
      const { ownerId } = tenant
      await platform.db.run(noteAttachments, { ownerId, notes: [{ id: id!, gone: true }] })

      expect(await codeOf(tenant.admit({ chatId }))).toBe('attachment_refresh_required')
      const wrong = { [REPORT]: 'https://evil.example.com/r.pdf' }
      expect(await codeOf(tenant.admit({ chatId, attachmentUrlRefreshes: wrong }))).toBe('invalid_attachment_refresh')
      const fresh = await tenant.admit({ chatId, attachmentUrlRefreshes: { [REPORT]: `${REPORT}?token=3` } })
      expect(await contextOf(fresh.run.runId)).toEqual([
        { sent: true, url: `${REPORT}?token=3` },
        { sent: true, url: `${REPORT}?token=3` },
      ])
    })

    test('signed addresses stand nowhere in plain text', async () => {
      await tenant.admit({ attachments: [file(`${REPORT}?sig=url-canary`)] })
      const rows = await platform.rows(
        `SELECT a::text || encode(url_enc, 'escape') AS everything FROM message_attachments a`,
      )
      const input = await platform.rows('SELECT r::text AS everything FROM runs r')
      expect(JSON.stringify([...rows, ...input])).not.toContain('url-canary')
    })
  })
})
