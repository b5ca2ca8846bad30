import { Agency, Agent, type LeftOutHistory } from '@bureau/framework'
import { beforeEach, describe, expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import type { Json, TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

/** What the hook was given, and what it does. */
const asked: LeftOutHistory[] = []
let hook: (leftOut: LeftOutHistory) => string | Promise<string> = () => 'nothing'

const agencyWith = (summarizeHistory?: true | typeof hook): Agency =>
  new Agency({
    name: 'Shop',
    entryPoint: new Agent({ name: 'CEO', instructions: 'Help.', model: 'gpt-test' }),
    ...(summarizeHistory && { summarizeHistory }),
  })

const agencies = {
  shop: agencyWith((leftOut) => {
    asked.push(leftOut)
    return hook(leftOut)
  }),
  own: agencyWith(true),
  plain: agencyWith(),
}

/** The smallest budget is 4,000 bytes: some five of these messages with their answers. */
const HISTORY_TOKENS = 1_000
const saying = (n: number): string => `Message ${n}. ${'x'.repeat(250)}`
const numbersIn = (value: unknown): number[] =>
  [...JSON.stringify(value).matchAll(/Message (\d+)\./g)].map((match) => Number(match[1]))

describe.each(ENGINES)('the summary of a long chat on %s', (engine) => {
  const served = servePlatform(engine, { agencies })
  beforeEach(() => {
    asked.length = 0
    hook = ({ summary, messages }) => [summary, `Seen: ${numbersIn(messages).join(' ')}.`].filter(Boolean).join(' ')
    served.provider.respond(() => text(`Answer. ${'y'.repeat(150)}`))
  })

  async function newChat(agencyId: keyof typeof agencies) {
    const client = await served.client({ historyTokens: HISTORY_TOKENS })
    await client.call('PATCH', `/v1/integrations/${client.integrationId}`, { agencyId, defaultAgent: 'CEO' })
    const { body } = await client.post('/create_new_chat', { apiIntegrationId: client.integrationId })
    let said = 0
    /** Sends so many messages, and returns what the model got with the last one. */
    const say = async (count: number): Promise<Json[]> => {
      for (let n = 0; n < count; n++) {
        const answer = await client.completeWhole({ chatId: body.chatId, message: saying(++said) })
        expect(answer.stream.result).toMatchObject({ status: 'completed' })
      }
      return served.provider.modelRequests.at(-1)!.items as Json[]
    }
    return { client, chatId: body.chatId as string, say }
  }

  const allMessages = async (client: TestClient, chatId: string): Promise<number[]> =>
    numbersIn((await client.get(`/v1/chats/${chatId}/messages?limit=100`)).body.data)

  test('text that repeats itself, which a database stores compressed, counts as long as it is', async () => {
    const { client, chatId } = await newChat('plain')
    for (let n = 1; n <= 4; n++) {
      await client.completeWhole({ chatId, message: `Message ${n}. ${'word '.repeat(700)}` })
    }

    expect(numbersIn(served.provider.modelRequests.at(-1)!.items)).toEqual([4])
  })

  test('what leaves the budget is summed up once, kept, and sent in place of it', async () => {
    const { client, chatId, say } = await newChat('shop')

    while (asked.length === 0) await say(1)
    const summed = numbersIn(asked[0]!.messages)
    const first = served.provider.modelRequests.at(-1)!.items as Json[]
    const next = await say(1)

    expect(asked).toHaveLength(1)
    expect(asked[0]!.summary).toBeNull()
    expect(first[0]).toMatchObject({
      role: 'system',
      content: `What was said in this conversation before, in short:\nSeen: ${summed.join(' ')}.`,
    })
    const sent = numbersIn(first.slice(1))
    expect([...summed, ...sent]).toEqual(Array.from({ length: summed.length + sent.length }, (_, at) => at + 1))
    expect(next.slice(0, first.length)).toEqual(first) // so that a provider's cache of prompts is of use
    expect((await allMessages(client, chatId)).length).toBe(summed.length + sent.length + 1)
  })

  test('later summaries begin with the one before; every message is summed up exactly once, every few runs', async () => {
    const { say } = await newChat('shop')

    const last = await say(30)

    const summed = asked.flatMap(({ messages }) => numbersIn(messages))
    expect([...summed, ...numbersIn(last.slice(1))]).toEqual(Array.from({ length: 30 }, (_, at) => at + 1))
    expect(asked.map(({ summary }) => summary === null)).toEqual(asked.map((_, at) => at === 0))
    expect(asked.length).toBeLessThanOrEqual(10)
    expect(Buffer.byteLength(JSON.stringify(last.slice(1)))).toBeLessThan(8_000)
  })

  test.each([
    ['throws', () => Promise.reject(new Error('no'))],
    ['throws at once', () => raise()],
    ['returns no text', () => ' '],
  ])('a hook that %s loses nothing: the latest turns are sent, and the next run tries again', async (_how, broken) => {
    const { client, chatId, say } = await newChat('shop')
    const works = hook
    hook = broken

    await say(9)
    const without = await say(1)
    const tries = asked.splice(0).length
    hook = works
    const after = await say(3) // what has waited is caught up with, a budget at a time

    expect(tries).toBeGreaterThan(1)
    expect(without.some(({ role }) => role === 'system')).toBe(false)
    expect(numbersIn(without).at(-1)).toBe(10)
    expect(numbersIn(without).length).toBeGreaterThan(2)
    const summed = asked.flatMap(({ messages }) => numbersIn(messages))
    expect([...summed, ...numbersIn(after.slice(1))]).toEqual(Array.from({ length: 13 }, (_each, at) => at + 1))
    expect(await allMessages(client, chatId)).toHaveLength(13)
  })

  test('true: the model of the agent is asked, and its tokens are part of the usage', async () => {
    const { client, chatId, say } = await newChat('own')
    served.provider.respond(({ body }) =>
      text((body as Json).instructions.startsWith('You keep the memory') ? 'In short.' : `Answer. ${'y'.repeat(150)}`),
    )
    await say(9)

    const requests = served.provider.modelRequests
    const summing = requests.filter(({ body }) => (body as Json).instructions.startsWith('You keep the memory'))
    const { body } = await client.get(`/v1/runs?chatId=${chatId}`)
    const counts = (body.data as Json[]).map(({ usage }) => usage.request_count)

    expect(summing.length).toBeGreaterThan(0)
    expect(counts.filter((count) => count === 2)).toHaveLength(summing.length)
    expect(JSON.stringify(requests.at(-1)!.items)).toContain('in short:\\nIn short.')
  })

  test('without the option the chat is as before: its latest turns, and no summary', async () => {
    const { say } = await newChat('plain')

    const last = await say(12)

    expect(last.some(({ role }) => role === 'system')).toBe(false)
    expect(numbersIn(last).at(-1)).toBe(12)
    expect(numbersIn(last)[0]).toBeGreaterThan(1)
  })

  test('a deleted chat leaves no summary behind', async () => {
    const { client, chatId, say } = await newChat('shop')
    while (asked.length === 0) await say(1)

    await client.call('DELETE', `/v1/chats/${chatId}`)

    expect(await served.rows(`SELECT summary FROM chats WHERE id = '${chatId}'`)).toEqual([{ summary: null }])
    expect(await served.violations()).toEqual([])
  })
})

function raise(): never {
  throw new Error('at once')
}
