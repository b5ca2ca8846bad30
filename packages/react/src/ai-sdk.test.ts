import { type Client, createClient, type RunStorage } from '@bureau/client'
import { Agency, Agent, tool } from '@bureau/framework'
import {
  AbstractChat,
  type ChatInit,
  type ChatState,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  readUIMessageStream,
  type UIMessage,
} from 'ai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { bureauTransport, chatMessages, withArguments } from './ai-sdk.ts'
import { startPlatform } from '../../../tests/platform/support/test-platform.ts'
import { cuttableFetch, memoryStorage } from '../../../tests/support/broken-connections.ts'
import { hold, status, text, textDeltas, toolCall } from '../../../tests/support/fake-provider.ts'
import { PNG } from '../../../tests/support/file-server.ts'
import { closeAfterTest, soloAgency, startTestServer } from '../../../tests/support/test-server.ts'

const PIXEL = PNG.toString('base64')

/** Gives an answer once its last byte is there, so that a client reads all events of a run that is over at once. */
const wholeFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init)
  return response.status === 204 ? response : new Response(await response.arrayBuffer(), response)
}

const SERVERS = {
  'a self-hosted server': async (agency = soloAgency().solo) => {
    const { url, provider } = await startTestServer({ agencies: { solo: agency } })
    const open = (storage: RunStorage, fetchIt = fetch, retryDelaysMs?: number[]): Client =>
      createClient({
        url: `${url}/solo`,
        resume: true,
        storage,
        fetch: fetchIt,
        ...(retryDelaysMs && { retryDelaysMs }),
      })
    return { provider, open }
  },
  'the platform': async (agency?: Agency) => {
    const platform = await startPlatform('pglite', agency && { agencies: { shop: agency } })
    closeAfterTest(() => platform.close())
    const { url, token, integrationId: integration } = await platform.client()
    const open = (storage: RunStorage, fetchIt = fetch, retryDelaysMs?: number[]): Client =>
      createClient({ url, token, integration, storage, fetch: fetchIt, ...(retryDelaysMs && { retryDelaysMs }) })
    return { provider: platform.provider, open }
  },
}

const said = (messages: readonly UIMessage[]): string[] =>
  messages.map(({ role, parts }) => `${role}: ${parts.map((part) => (part.type === 'text' ? part.text : '')).join('')}`)

/** What a page shows in the end that loads the history and resumes. */
async function shownAfterReload(client: Client): Promise<string[]> {
  const before = await chatMessages(client, 'mine')
  const resumed = await bureauTransport(client).reconnectToStream({ chatId: 'mine' })
  let last: UIMessage | undefined
  if (resumed) for await (const message of readUIMessageStream({ stream: resumed })) last = message
  return [...said(before), ...(last ? said([last]) : [])]
}

test('a message to another agent that was shown as a call ends as one', async () => {
  const writer = new Agent({ name: 'Writer', instructions: 'Write.', model: 'gpt-test' })
  const lead = new Agent({ name: 'Lead', instructions: 'Lead.', model: 'gpt-test' })
  const agency = new Agency({ name: 'Duo', entryPoint: lead, flows: [[lead, writer]] })
  const { url, provider } = await startTestServer({ agencies: { duo: agency } })
  const sent = { recipient_agent: 'Writer', message: 'A poem.' }
  provider.script([[toolCall('send_message', sent)], text('Roses.'), text('Done.')])
  const transport = bureauTransport(createClient({ url: `${url}/duo` }))
  const messages: UIMessage[] = [{ id: '1', role: 'user', parts: [{ type: 'text', text: 'Go.' }] }]
  const request = { chatId: 'c', messages, trigger: 'submit-message', messageId: undefined } as const
  const stream = await transport.sendMessages({ ...request, abortSignal: undefined })
  let last: UIMessage | undefined
  for await (const message of readUIMessageStream({ stream })) last = message

  expect(last?.parts).toMatchObject([
    { type: 'step-start' },
    { type: 'dynamic-tool', state: 'output-available', output: expect.stringContaining('Roses.') },
    { type: 'data-agent', data: { name: 'Writer', state: 'done' } },
    { type: 'data-nested' },
    { type: 'text', text: 'Done.' },
  ])
})

/** What `useChat` keeps, without React. */
class PlainChat extends AbstractChat<UIMessage> {
  constructor(client: Client, options: Pick<ChatInit<UIMessage>, 'sendAutomaticallyWhen'> = {}) {
    const state: ChatState<UIMessage> = {
      status: 'ready',
      error: undefined,
      messages: [],
      pushMessage: (message) => void state.messages.push(message),
      popMessage: () => void state.messages.pop(),
      replaceMessage: (at, message) => void state.messages.splice(at, 1, message),
      snapshot: (value) => structuredClone(value),
    }
    const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithApprovalResponses
    super({ id: 'mine', transport: bureauTransport(client), state, sendAutomaticallyWhen, ...options })
  }
}

const streamOf = (...frames: readonly [string, object][]): Response =>
  new Response(
    [
      ...frames.map(([name, data]) => `${name && `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`),
      'event: end\ndata: x\n\n',
    ].join(''),
    { headers: { 'content-type': 'text/event-stream' } },
  )

test('text that a run withdraws when it goes on in another process is not shown beside the new one', async () => {
  const delta = (id: string, words: string): [string, object] => {
    const data = { type: 'response.output_text.delta', item_id: id, delta: words }
    return ['', { data: { type: 'raw_response_event', data, agent: 'Solo', callerAgent: null } }]
  }
  const answer = streamOf(
    ['meta', { run_id: 'r', chatId: 'c' }],
    delta('before', 'Let me see.'),
    delta('half', 'It is d'),
    ['run_resumed', { attempt: 2, withdrawn: ['half'] }],
    delta('whole', 'It is done.'),
    ['messages', { run_id: 'r', new_messages: [] }],
  )
  const client = createClient({ url: 'http://platform.test', integration: 'i', fetch: async () => answer })
  const chat = new PlainChat(client)
  await chat.sendMessage({ text: 'Where is order 7?' })

  expect(chat.messages.at(-1)?.parts).toMatchObject([
    { type: 'step-start' },
    { type: 'text', text: 'Let me see.' },
    { type: 'text', text: 'It is done.' },
  ])
})

test('a page that answers calls of its own tools sends nothing for those that the server carries out', async () => {
  const look = tool({ name: 'look', description: 'Looks.', parameters: z.object({}), execute: () => 'Seen.' })
  const { url, provider } = await startTestServer({ agencies: soloAgency({ tools: [look] }) })
  provider.script([toolCall('look', {}), text('It is done.'), text('Again.')])
  const client = createClient({ url: `${url}/solo` })
  const chat = new PlainChat(client, { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls })
  await chat.sendMessage({ text: 'Where is order 7?' })

  expect([chat.error, provider.modelRequests.length]).toEqual([undefined, 2])
  chat.messages = await chatMessages(client, 'mine')
  expect(lastAssistantMessageIsCompleteWithToolCalls(chat)).toBe(false)
})

test('what somebody else has decided on is an error once, and the chat goes on', async () => {
  const approval = { call_id: 'a', tool: 'refund', arguments: '{}', agent: 'Solo', edit: false }
  const answers = [
    streamOf(
      ['meta', { run_id: 'r', chatId: 'c' }],
      ['approval_requested', approval],
      ['messages', { run_id: 'r', new_messages: [], status: 'waiting', approvals: [approval] }],
    ),
    Response.json({ error: 'Somebody has decided.', code: 'approval_decided' }, { status: 409 }),
    Response.json({ data: [] }),
    streamOf(['meta', { run_id: 's', chatId: 'c' }], ['messages', { run_id: 's', new_messages: [] }]),
  ]
  const asked: string[] = []
  const scripted: typeof fetch = async (input) => {
    asked.push(input as string)
    return answers.shift()!
  }
  const client = createClient({ url: 'http://platform.test', integration: 'i', fetch: scripted, retryDelaysMs: [] })
  const transport = bureauTransport(client)
  const send = async (...parts: UIMessage['parts']): Promise<void> => {
    const messages: UIMessage[] = [{ id: '1', role: 'user', parts: [{ type: 'text', text: 'Hi' }, ...parts] }]
    const options = { trigger: 'submit-message', chatId: 'mine', messageId: undefined, abortSignal: undefined } as const
    for await (const _chunk of await transport.sendMessages({ ...options, messages }));
  }
  const decided = {
    type: 'dynamic-tool',
    toolName: 'refund',
    toolCallId: 'a',
    input: {},
    state: 'approval-responded',
  } as const

  await send()
  await expect(send({ ...decided, approval: { id: 'a', approved: true } })).rejects.toThrow('Somebody has decided.')
  await send({ ...decided, approval: { id: 'a', approved: true } })
  expect(asked.at(-1)).toBe('http://platform.test/get_completion_v2')
})

test('a message that the platform refuses, because another one is being answered, is an error in the end', async () => {
  const { provider, open } = await SERVERS['the platform']()
  const gate = provider.gate()
  provider.script([textDeltas(['It is', hold(gate), ' done.'])])
  const releasing: typeof fetch = async (input, init) => {
    const response = await fetch(input, init)
    if (response.status === 409) gate.release()
    return response
  }
  const chat = new PlainChat(open(memoryStorage(), releasing))
  const first = chat.sendMessage({ text: 'Where is order 7?' })
  await provider.waitForRequests(1)
  const second = chat.sendMessage({ text: 'And order 8?' })
  await Promise.all([first, second])

  expect([chat.status, chat.error?.message]).toEqual(['error', 'The previous run of this chat is still active.'])
})

/** A page that is left when the first words of its answer are there. */
async function leaveInTheMidst(client: Client): Promise<void> {
  const run = client.stream({ message: 'Where is order 7?', chat: 'mine' })
  for await (const words of run.text()) if (words === 'It is') break
  run.detach()
}

describe.each(Object.entries(SERVERS))('useChat on %s', (_name, start) => {
  test.each([
    ['at once', wholeFetch],
    ['as it comes', fetch],
  ])('an answer that ended while the page was away is shown, read %s', async (_how, fetchIt) => {
    const { provider, open } = await start()
    const storage = memoryStorage()
    const gate = provider.gate()
    provider.script([textDeltas(['It is', hold(gate), ' done.'])])
    const left = open(storage).stream({ message: 'Where is order 7?', chat: 'mine' })
    const { run } = await left.started
    left.detach()
    gate.release()
    await (
      await open(memoryStorage()).attach({ run })
    )?.result

    expect(await shownAfterReload(open(storage, fetchIt))).toEqual([
      'user: Where is order 7?',
      'assistant: It is done.',
    ])
  })

  test('calls are approved with other arguments where they may have others, and as they were', async () => {
    const done: string[] = []
    const send = (name: string, needsApproval: true | { when: true; edit: true }) =>
      tool({
        name,
        description: 'Sends an order.',
        parameters: z.object({ order: z.number(), to: z.string() }),
        needsApproval,
        execute: ({ order, to }) => {
          done.push(`${name} ${order} to ${to}`)
          return 'Done.'
        },
      })
    const tools = [send('ship', { when: true, edit: true }), send('scrap', true)]
    const { provider, open } = await start(soloAgency({ tools }).solo)
    provider.script([
      [toolCall('ship', { order: 7, to: 'Oslo' }), toolCall('scrap', { order: 8, to: 'Bergen' })],
      text('All is decided.'),
    ])
    const chat = new PlainChat(open(memoryStorage()))
    await chat.sendMessage({ text: 'Clear the table' })
    const calls = chat.messages.at(-1)!.parts.filter(isToolUIPart)
    const [first, second] = calls.map(({ toolCallId: id }) => id)
    expect(calls.map(({ approval }) => approval?.descriptor)).toMatchObject([{ edit: true }, { edit: false }])

    chat.messages = withArguments(chat.messages, first!, { order: 70, to: 'Oslo' })
    await chat.addToolApprovalResponse({ id: first!, approved: true })
    // A page that keeps its messages elsewhere may get them back in another order.
    chat.messages = withArguments(chat.messages, second!, { to: 'Bergen', order: 8 })
    await chat.addToolApprovalResponse({ id: second!, approved: true })
    await expect.poll(() => said(chat.messages).at(-1)).toContain('All is decided.')

    expect(done.toSorted()).toEqual(['scrap 8 to Bergen', 'ship 70 to Oslo'])
    expect(chat.messages.at(-1)!.parts.filter(isToolUIPart)[0]!.input).toEqual({ order: 70, to: 'Oslo' })
  })

  test('an answer that goes on is shown from its first word', async () => {
    const { provider, open } = await start()
    const storage = memoryStorage()
    const gate = provider.gate()
    provider.script([textDeltas(['It is', hold(gate), ' done.'])])
    await leaveInTheMidst(open(storage))

    const shown = shownAfterReload(open(storage))
    gate.release()
    expect(await shown).toEqual(['user: Where is order 7?', 'assistant: It is done.'])
  })

  test('a page that stops and resumes at once, as StrictMode does, leaves the run alone', async () => {
    const { provider, open } = await start()
    const storage = memoryStorage()
    const gate = provider.gate()
    provider.script([textDeltas(['It is', hold(gate), ' done.'])])
    await leaveInTheMidst(open(storage))

    const asked: string[] = []
    const noting: typeof fetch = (input, init) => {
      asked.push(input as string)
      return fetch(input, init)
    }
    const chat = new PlainChat(open(storage, noting))
    const first = chat.resumeStream()
    void chat.stop()
    const second = chat.resumeStream()
    await first
    gate.release()
    await second
    expect(asked.filter((url) => url.includes('cancel'))).toEqual([])
    expect(said(chat.messages)).toEqual(['assistant: It is done.'])
  })

  test('an answer that is resumed after a lost connection takes the place of what was shown of it', async () => {
    const { provider, open } = await start()
    const gate = provider.gate()
    provider.script([textDeltas(['It is', hold(gate), ' done.'])])
    const { cut, fetch } = cuttableFetch()
    const chat = new PlainChat(open(memoryStorage(), fetch, []))
    const sent = chat.sendMessage({ text: 'Where is order 7?' })
    await expect.poll(() => said(chat.messages).at(-1)).toBe('assistant: It is')
    cut()
    await sent
    expect(chat.error?.message).toBe('The connection was lost.')
    gate.release()
    await chat.resumeStream()

    expect(said(chat.messages)).toEqual(['user: Where is order 7?', 'assistant: It is done.'])
  })

  test('an answer that is resumed after an approval and a lost connection is shown once, and whole', async () => {
    const ship = tool({
      name: 'ship',
      description: 'Sends an order.',
      parameters: z.object({ order: z.number() }),
      needsApproval: true,
      execute: () => 'Sent.',
    })
    const { provider, open } = await start(soloAgency({ tools: [ship] }).solo)
    const gate = provider.gate()
    provider.script([
      [text('Let me see.'), toolCall('ship', { order: 7 })],
      textDeltas(['It is', hold(gate), ' done.']),
    ])
    const { cut, fetch } = cuttableFetch()
    const client = open(memoryStorage(), fetch, [])
    const chat = new PlainChat(client)
    await chat.sendMessage({ text: 'Send order 7' })
    const call = chat.messages.at(-1)!.parts.find(isToolUIPart)!
    const decided = chat.addToolApprovalResponse({ id: call.toolCallId, approved: true })
    await expect.poll(() => said(chat.messages).at(-1)).toContain('It is')
    cut()
    await decided
    await expect.poll(() => chat.error?.message).toBe('The connection was lost.')
    const before = said(await chatMessages(client, 'mine'))
    gate.release()
    await chat.resumeStream()

    expect(before).toEqual(['user: Send order 7'])
    expect(said(chat.messages)).toEqual(['user: Send order 7', 'assistant: Let me see.It is done.'])
    expect(chat.messages.at(-1)!.parts.filter(isToolUIPart)).toMatchObject([{ output: 'Sent.' }])
  })

  test.each(['sendMessage', 'regenerate'] as const)('%s right after a stop goes on behind it', async (next) => {
    const { provider, open } = await start()
    provider.script([text('Hello.'), textDeltas(['It is', hold(provider.gate())]), text('Again.')])
    const chat = new PlainChat(open(memoryStorage()))
    await chat.sendMessage({ text: 'Hi' })
    const stopped = chat.sendMessage({ text: 'Where is order 7?' })
    await expect.poll(() => said(chat.messages).at(-1)).toBe('assistant: It is')
    await chat.stop()
    await stopped
    await (next === 'regenerate' ? chat.regenerate() : chat.sendMessage({ text: 'And order 8?' }))

    expect([chat.status, said(chat.messages).at(-1)]).toEqual(['ready', 'assistant: Again.'])
    expect(JSON.stringify(provider.modelRequests.at(-1)!.items)).toMatch(/Hi.*Hello\..*Where is order 7/)
  })

  test('an answer that failed before its first word is not an empty message after a reload', async () => {
    const { provider, open } = await start()
    provider.script([status(400), text('Hello.')])
    const client = open(memoryStorage())
    const chat = new PlainChat(client)
    await chat.sendMessage({ text: 'Where is order 7?' })
    await chat.sendMessage({ text: 'Hi' })

    const loaded = said(await chatMessages(client, 'mine'))
    expect(loaded.slice(-2)).toEqual(['user: Hi', 'assistant: Hello.'])
    expect(loaded).not.toContain('assistant: ')
  })

  test('regenerate after a failure keeps what was said before', async () => {
    const { provider, open } = await start()
    provider.script([text('Hello.'), status(400), text('Again.')])
    const chat = new PlainChat(open(memoryStorage()))
    await chat.sendMessage({ text: 'Hi' })
    await chat.sendMessage({ text: 'Where is order 7?' })
    expect(chat.status).toBe('error')
    await chat.regenerate()

    expect(said(chat.messages).at(-1)).toBe('assistant: Again.')
    expect(JSON.stringify(provider.modelRequests.at(-1)!.items)).toMatch(/Hi.*Hello\..*Where is order 7/)
  })
})

test.each([
  [
    'edit',
    'in the page that sent it',
    (chat: PlainChat, id: string) => chat.sendMessage({ text: 'Bye', messageId: id }),
  ],
  ['edit', 'after a reload', (chat: PlainChat, id: string) => chat.sendMessage({ text: 'Bye', messageId: id })],
  ['regenerate', 'in the page that sent it', (chat: PlainChat, id: string) => chat.regenerate({ messageId: id })],
  ['regenerate', 'after a reload', (chat: PlainChat, id: string) => chat.regenerate({ messageId: id })],
])('%s of an earlier message, %s, takes all after it out of the history', async (_what, where, answerAnew) => {
  const { provider, open } = await SERVERS['a self-hosted server']()
  provider.script(['Hello.', 'It is on its way.', 'Again.'].map((words) => text(words)))
  const client = open(memoryStorage())
  let chat = new PlainChat(client)
  await chat.sendMessage({ text: 'Hi' })
  await chat.sendMessage({ text: 'Where is order 7?' })
  if (where === 'after a reload') {
    const messages = await chatMessages(client, 'mine')
    chat = new PlainChat(client)
    chat.messages = messages
  }
  await answerAnew(chat, chat.messages[0]!.id)

  expect(provider.modelRequests.at(-1)!.items).toHaveLength(1)
  expect(said(await chatMessages(client, 'mine'))).toEqual(said(chat.messages))
})

test('pictures and files of the user are there after a reload, and sent again with their message', async () => {
  const { provider, open } = await SERVERS['a self-hosted server']()
  provider.respond(() => text('I see.'))
  const client = open(memoryStorage())
  const files = [
    { type: 'file', mediaType: 'image/png', url: `data:image/png;base64,${PIXEL}` },
    { type: 'file', mediaType: 'application/pdf', url: 'data:application/pdf;base64,JVBERi0x', filename: 'order.pdf' },
  ] as const
  await new PlainChat(client).sendMessage({ text: 'What is it?', files: [...files] })

  const chat = new PlainChat(client)
  chat.messages = await chatMessages(client, 'mine')
  expect(chat.messages[0]!.parts).toEqual([{ type: 'text', text: 'What is it?' }, ...files])
  await chat.regenerate()
  const [first, again] = provider.modelRequests.map(({ items }) => items)
  expect(again).toEqual(first)
  expect(JSON.stringify(again)).toContain(PIXEL)
})
