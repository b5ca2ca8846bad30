import { type AgencyOptions, createClient } from '@bureau/client'
import { type AgentOptions, tool } from '@bureau/framework'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { z } from 'zod'
import { Conversation } from './conversation.ts'
import type { ConversationState } from './messages.ts'
import { startPlatform } from '../../../tests/platform/support/test-platform.ts'
import { cuttableFetch, memoryStorage } from '../../../tests/support/broken-connections.ts'
import { hold, status, text, textDeltas, toolCall } from '../../../tests/support/fake-provider.ts'
import { PNG } from '../../../tests/support/file-server.ts'
import { closeAfterTest, soloAgency, startTestServer } from '../../../tests/support/test-server.ts'

const PIXEL = PNG.toString('base64')

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
})

const refund = tool({
  name: 'refund',
  description: 'Pays back.',
  parameters: z.object({ cents: z.number() }),
  needsApproval: { when: true, edit: true },
  execute: ({ cents }) => `${cents} cents`,
})

/** A page, as far as it says that it is looked at again. */
function stubPage(): EventTarget {
  const page = new EventTarget()
  vi.stubGlobal('addEventListener', page.addEventListener.bind(page))
  onTestFinished(() => void vi.unstubAllGlobals())
  return page
}

/** Resolves with the first state that fits. */
async function until(
  conversation: Conversation,
  fits: (state: ConversationState) => boolean,
): Promise<ConversationState> {
  if (fits(conversation.state())) return conversation.state()
  return new Promise((resolve) => {
    const off = conversation.subscribe(() => {
      if (!fits(conversation.state())) return
      off()
      resolve(conversation.state())
    })
  })
}

const isIdle = ({ status: state }: ConversationState): boolean => state === 'idle'

/** What is shown, in short. */
const shown = ({ messages }: ConversationState): string[] =>
  messages.map(({ role, parts, state }) => {
    const said = parts.map((part) =>
      part.type === 'text' ? part.text : part.type === 'tool' ? `(${part.name})` : part.type,
    )
    return `${role}: ${said.join(' ')}${state === 'done' ? '' : ` [${state}]`}`
  })

async function openSolo({ tools = [add], ...options }: Partial<AgencyOptions> & Pick<AgentOptions, 'tools'> = {}) {
  const server = await startTestServer({ agencies: soloAgency({ tools }) })
  const client = createClient({ url: `${server.url}/solo`, resume: true, retryDelaysMs: [0, 10], ...options })
  const open = (chat?: string): Conversation => {
    const conversation = new Conversation(client, chat)
    onTestFinished(conversation.open())
    return conversation
  }
  return { server, client, open }
}

describe('a conversation with a self-hosted agency', () => {
  test('shows what was asked at once, and the answer with its tools as it comes', async () => {
    const { server, open } = await openSolo()
    const gate = server.provider.gate()
    server.provider.script([[toolCall('add', { a: 1, b: 2 })], [textDeltas(['It is', hold(gate), ' three.'])]])
    const conversation = open()
    const sent = conversation.send('One and two?', true)

    expect(shown(conversation.state())[0]).toContain('user: One and two?')
    const streaming = await until(conversation, (state) => shown(state).at(-1)!.includes('It is'))
    expect(shown(streaming)).toEqual(['user: One and two?', 'assistant: (add) It is [running]'])
    expect(streaming).toMatchObject({ status: 'running', connection: 'open' })
    gate.release()
    await sent
    const state = await until(conversation, isIdle)
    expect(shown(state)).toEqual(['user: One and two?', 'assistant: (add) It is three.'])
    expect(state).toMatchObject({ error: null, usage: { request_count: 2 }, connection: 'closed' })
  })

  test('messages that have not changed are the same objects', async () => {
    const { server, open } = await openSolo()
    server.provider.respond(() => text('Yes.'))
    const conversation = open()
    await conversation.send('One', true)
    const before = conversation.state().messages
    await conversation.send('Two', true)

    expect(conversation.state().messages.slice(0, 2)).toEqual(before)
    expect(conversation.state().messages[0]).toBe(before[0])
    expect(conversation.state().messages[1]).toBe(before[1])
  })

  test('pictures of the user are shown, also after a reload', async () => {
    const { server, open } = await openSolo()
    server.provider.respond(() => text('I see.'))
    const content = [
      { type: 'input_text', text: 'What is it?' },
      { type: 'input_image', image_url: `data:image/png;base64,${PIXEL}` },
    ]
    const conversation = open('mine')
    await conversation.send({ message: [{ role: 'user', content }] }, true)

    for (const page of [conversation, open('mine')]) {
      const { messages } = await until(page, isIdle)
      expect(messages[0]?.parts).toMatchObject([
        { type: 'text', text: 'What is it?' },
        { type: 'file', mediaType: 'image/png', data: PIXEL },
      ])
    }
  })

  test('a message that must not wait is refused when a run is found while the history is loaded, else sent', async () => {
    const { server, open } = await openSolo({ storage: memoryStorage() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['a', hold(gate)]), text('b')])
    const first = open('mine')
    void first.send('One', true)
    await until(first, ({ connection }) => connection === 'open')

    const second = open('mine')
    await expect(second.send('No', false)).rejects.toMatchObject({ code: 'run_active' })
    expect(shown(second.state())).not.toContain('user: No [queued]')
    gate.release()
    await until(second, isIdle)
    const third = open('mine')
    const sent = third.send('Two', false)
    await expect(third.send('No', false)).rejects.toMatchObject({ code: 'run_active' })
    await sent
    expect(shown(third.state())).toEqual(['user: One', 'assistant: a', 'user: Two', 'assistant: b'])
  })

  test('a message that is sent meanwhile waits for its turn, or is refused', async () => {
    const { server, open } = await openSolo()
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['a', hold(gate)]), text('b')])
    const conversation = open()
    void conversation.send('One', true)
    await until(conversation, ({ status: state }) => state === 'running')

    await expect(conversation.send('No', false)).rejects.toMatchObject({ code: 'run_active' })
    void conversation.send('Two', true)
    expect(shown(conversation.state()).at(-1)).toBe('user: Two [queued]')
    gate.release()
    const state = await until(conversation, (each) => isIdle(each) && each.messages.length === 4)
    expect(shown(state)).toEqual(['user: One', 'assistant: a', 'user: Two', 'assistant: b'])
  })

  test('stopping stops the run at the server', async () => {
    const { server, open } = await openSolo()
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['a', hold(gate)])])
    const conversation = open()
    void conversation.send('One', true)
    await until(conversation, (state) => shown(state).at(-1)!.includes('a'))
    await conversation.cancel()

    expect(shown(await until(conversation, isIdle)).at(-1)).toMatch(/\[cancelled\]$/)
    await server.provider.waitForAborts(1)
    gate.release()
  })

  test('what failed says why, and is sent again', async () => {
    const { server, open } = await openSolo()
    server.provider.script([status(400, { code: 'bad', message: 'No.' }), text('Yes.')])
    const conversation = open()
    await conversation.send('One', true)

    const failed = conversation.state()
    expect(failed).toMatchObject({ status: 'error', error: { code: 'upstream_invalid_request' } })
    expect(shown(failed)).toEqual(['user: One', 'assistant:  [failed]'])
    await conversation.retry()
    expect(shown(conversation.state())).toEqual(['user: One', 'assistant: Yes.'])
    expect(conversation.state()).toMatchObject({ status: 'idle', error: null })
    await conversation.retry()
    expect(server.provider.modelRequests).toHaveLength(2)
  })

  test('another text takes the place of a message, here or from the history', async () => {
    const { server, open } = await openSolo()
    server.provider.respond(({ items }) => text(`${items.length} items`))
    const conversation = open('mine')
    await conversation.send('One', true)
    await conversation.send('Two', true)
    await conversation.edit(conversation.state().messages[2]!.id, 'Two again')
    expect(shown(conversation.state())).toEqual([
      'user: One',
      'assistant: 1 items',
      'user: Two again',
      'assistant: 3 items',
    ])

    const later = open('mine')
    await until(later, isIdle)
    expect(shown(later.state())).toEqual(shown(conversation.state()))
    await later.edit(later.state().messages[0]!.id, 'New')
    expect(shown(later.state())).toEqual(['user: New', 'assistant: 1 items'])
    await later.edit('none', 'x')
    expect(later.state()).toMatchObject({ status: 'error', error: { code: 'not_found' } })
  })

  test('opened again in mid-answer, as StrictMode and hidden pages do, it goes on with the same run', async () => {
    const storage = memoryStorage()
    const { server, client } = await openSolo({ storage })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['a', hold(gate), 'b'])])
    const conversation = new Conversation(client, 'mine')
    conversation.open()()
    const close = conversation.open()
    void conversation.send('One', true)
    await until(conversation, (state) => shown(state).at(-1)!.includes('a'))
    close()
    onTestFinished(conversation.open())

    const state = await until(conversation, (each) => each.status === 'running')
    expect(shown(state)[0]).toBe('user: One')
    gate.release()
    expect(shown(await until(conversation, isIdle))).toEqual(['user: One', 'assistant: ab'])
    expect(server.provider.modelRequests).toHaveLength(1)
    expect(client.histories?.get('mine')).toHaveLength(2)
  })

  test('left before the first frame, the message is shown again and answered once', async () => {
    const { server, client } = await openSolo({ storage: memoryStorage() })
    const gate = server.provider.gate()
    server.provider.script([[hold(gate, { before: 'headers' }), text('Here.')]])
    const left = new Conversation(client, 'mine')
    const close = left.open()
    await until(left, isIdle)
    const reached = server.handled('/solo/get_response_stream')
    void left.send('One', true)
    await reached
    close()
    await server.provider.waitForRequests(1)

    const later = new Conversation(client, 'mine')
    onTestFinished(later.open())
    expect(shown(await until(later, ({ messages }) => messages.length > 0))).toEqual(['user: One'])
    gate.release()
    expect(shown(await until(later, isIdle))).toEqual(['user: One', 'assistant: Here.'])
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('a message that has not arrived before the page was left is shown as failed, and can be sent again', async () => {
    let isOffline = true
    const offline: typeof fetch = (input, init) =>
      isOffline && init?.method === 'POST' ? new Promise(() => {}) : fetch(input, init)
    const { server, client } = await openSolo({ storage: memoryStorage(), fetch: offline })
    server.provider.respond(() => text('Here.'))
    const left = new Conversation(client, 'mine')
    const close = left.open()
    await until(left, isIdle)
    void left.send('One', true)
    close()

    const later = new Conversation(client, 'mine')
    // As StrictMode does.
    later.open()()
    onTestFinished(later.open())
    const state = await until(later, ({ status }) => status === 'error')
    expect(shown(state)).toEqual(['user: One', 'assistant:  [failed]'])
    expect(state.error).toMatchObject({ code: 'not_answered' })
    isOffline = false
    await later.retry()
    expect(shown(await until(later, isIdle))).toEqual(['user: One', 'assistant: Here.'])
  })

  test('a message whose answer was lost before it began is sent again with its id, and answered once', async () => {
    let losesAnswers = true
    const losing: typeof fetch = async (input, init) => {
      const response = await fetch(input, init)
      if (losesAnswers && init?.method === 'POST') throw new TypeError('lost')
      return response
    }
    const { server, open } = await openSolo({ retryDelaysMs: [], fetch: losing })
    server.provider.respond(() => text('Here.'))
    const conversation = open('mine')
    await conversation.send('One', true)
    expect(conversation.state().error).toMatchObject({ code: 'connection_lost' })
    losesAnswers = false
    await conversation.retry()

    expect(shown(conversation.state())).toEqual(['user: One', 'assistant: Here.'])
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test.each([['storage', memoryStorage()] as const, ['no storage', false] as const])(
    'an answer that is found again after a lost connection is in the history: with %s',
    async (_how, storage) => {
      const { cut, fetch } = cuttableFetch()
      const { server, client, open } = await openSolo({ retryDelaysMs: [], fetch, storage })
      const gate = server.provider.gate()
      server.provider.script([text('Hello.'), textDeltas(['It is', hold(gate), ' done.'])])
      const conversation = open('mine')
      await conversation.send('Hi', true)
      const sent = conversation.send('One', true)
      await until(conversation, (state) => shown(state).at(-1)!.includes('It is'))
      cut()
      await sent
      expect(conversation.state().error).toMatchObject({ code: 'connection_lost' })
      gate.release()
      await conversation.retry()

      expect(shown(conversation.state()).slice(-2)).toEqual(['user: One', 'assistant: It is done.'])
      expect(client.histories?.get('mine')).toHaveLength(4)
      expect(server.provider.modelRequests).toHaveLength(2)
    },
  )

  test('arguments that do not fit are an error, and the call still waits for a decision', async () => {
    const { server, open } = await openSolo({ tools: [refund] })
    server.provider.script([[toolCall('refund', { cents: 700 })], text('Paid back.')])
    const conversation = open()
    await conversation.send('Refund 7', true)
    const [{ call_id: id } = { call_id: '' }] = conversation.state().approvals

    await conversation.decide(id, (run) => run.approve(id, { arguments: '{"cents":' }))
    const error = { message: expect.stringContaining('arguments') }
    expect(conversation.state()).toMatchObject({ status: 'waiting', error, approvals: [{ call_id: id }] })

    await conversation.decide(id, (run) => run.approve(id, { arguments: { cents: 7 } }))
    expect(conversation.state()).toMatchObject({ status: 'idle', error: null })
    expect(shown(conversation.state())).toEqual(['user: Refund 7', 'assistant: (refund) Paid back.'])
    expect(conversation.state().messages[1]?.parts[0]).toMatchObject({ output: expect.stringContaining('7 cents') })
  })

  test.each(['the page is looked at again', 'a message is sent', 'this page decides too'])(
    'what another page has decided on goes on here, once %s',
    async (how) => {
      const page = stubPage()
      const { server, open } = await openSolo({ tools: [refund], storage: memoryStorage() })
      server.provider.script([[toolCall('refund', { cents: 700 })], text('Paid back.'), text('Yes.')])
      const first = open('mine')
      await first.send('Refund 7', true)
      const second = open('mine')
      await until(second, ({ status: state }) => state === 'waiting')
      const [{ call_id: id } = { call_id: '' }] = first.state().approvals
      await first.decide(id, (run) => run.approve(id))

      const answered = ['user: Refund 7', 'assistant: (refund) Paid back.']
      if (how === 'a message is sent') {
        void second.send('Is it?', true)
        answered.push('user: Is it?', 'assistant: Yes.')
      } else if (how === 'this page decides too') await second.decide(id, (run) => run.reject(id))
      else page.dispatchEvent(new Event('pageshow'))
      const state = await until(second, (each) => isIdle(each) && each.messages.length === answered.length)
      expect(shown(state)).toEqual(answered)
      expect(state).toMatchObject({ error: null, approvals: [] })
    },
  )

  test('a run that waited and was stopped does not wait again after a reload', async () => {
    const { server, open } = await openSolo({ tools: [refund], storage: memoryStorage() })
    server.provider.script([toolCall('refund', { cents: 5 })])
    const conversation = open('mine')
    await conversation.send('Pay back', true)
    await conversation.cancel()
    expect(conversation.state()).toMatchObject({ status: 'idle', approvals: [] })

    const reloaded = await until(open('mine'), ({ status: state }) => state !== 'resuming')
    expect(reloaded).toMatchObject({ status: 'idle', approvals: [] })
    expect(shown(reloaded)[0]).toBe('user: Pay back')
  })

  test('tried again after an approval and a lost connection, the answer is shown whole', async () => {
    const { cut, fetch } = cuttableFetch()
    const { server, open } = await openSolo({ tools: [refund], fetch, retryDelaysMs: [], storage: memoryStorage() })
    const gate = server.provider.gate()
    server.provider.script([
      [text('Let me see.'), toolCall('refund', { cents: 5 })],
      textDeltas(['It is', hold(gate), ' paid.']),
    ])
    const conversation = open('mine')
    await conversation.send('Pay back', true)
    const [{ call_id: id } = { call_id: '' }] = conversation.state().approvals
    const decided = conversation.decide(id, (run) => run.approve(id))
    await until(conversation, (state) => shown(state).at(-1)!.includes('It is'))
    cut()
    await decided
    expect(conversation.state()).toMatchObject({ status: 'error', error: { code: 'connection_lost' } })
    const reloaded = await until(open('mine'), (state) => shown(state).at(-1)?.includes('It is') ?? false)
    expect(shown(reloaded)).toEqual(['user: Pay back', 'assistant: Let me see. (refund) It is [running]'])
    gate.release()
    await conversation.retry()

    expect(shown(conversation.state())).toEqual(['user: Pay back', 'assistant: Let me see. (refund) It is paid.'])
  })

  test('with another text for a message, what waits behind it is not sent, and what was said before it stays', async () => {
    const { server, open } = await openSolo()
    const gate = server.provider.gate()
    server.provider.script([text('Yes.'), textDeltas(['a', hold(gate)]), text('Now.')])
    const conversation = open('mine')
    await conversation.send('One', true)
    void conversation.send('Two', true)
    await until(conversation, (state) => shown(state).at(-1)!.startsWith('assistant: a'))
    const waits = [conversation.send('Three', true), conversation.send('Four', true)]
    const three = conversation
      .state()
      .messages.find(({ parts: [part] }) => part?.type === 'text' && part.text === 'Three')
    const other = conversation.edit(three!.id, 'Other')
    await Promise.all(waits)
    expect(shown(conversation.state()).slice(-2)).toEqual(['assistant: a [running]', 'user: Other [queued]'])

    await conversation.edit(conversation.state().messages[2]!.id, 'Two again')
    await other
    expect(shown(conversation.state())).toEqual(['user: One', 'assistant: Yes.', 'user: Two again', 'assistant: Now.'])
    expect(server.provider.modelRequests.map(({ items }) => items.length)).toEqual([1, 3, 3])
    gate.release()
  })

  test('a history that cannot be read is an error, and a message that needs it has failed', async () => {
    const histories = {
      get: () => {
        throw new Error('No.')
      },
      set: () => {},
    }
    const { open } = await openSolo({ histories })
    const conversation = open('mine')

    expect(await until(conversation, ({ error }) => error !== null)).toMatchObject({ error: { message: 'No.' } })
    await conversation.send('Hello?', true)
    expect(conversation.state()).toMatchObject({ status: 'error', error: { message: 'No.' } })
    expect(shown(conversation.state())).toEqual(['user: Hello?', 'assistant:  [failed]'])
  })
})

test('what is sent while a history is loaded that cannot be read is sent all the same', async () => {
  const loading = Promise.withResolvers<never>()
  const { fetch, sent } = fetchOf([
    frame('meta', { run_id: 'run_1' }),
    frame('messages', { new_messages: [], usage: null, response: 'Hi.' }),
    'event: end\ndata: [DONE]\n\n',
  ])
  const client = createClient({ url: 'http://agency.test/solo', fetch })
  const conversation = new Conversation(Object.assign(client, { history: () => loading.promise }), 'mine')
  onTestFinished(conversation.open())

  const answered = conversation.send('Hello?', true)
  expect(shown(conversation.state())).toEqual(['user: Hello? [queued]'])
  loading.reject(new Error('No.'))
  await answered

  expect(sent).toMatchObject([{ message: 'Hello?' }])
  expect(shown(conversation.state())[0]).toBe('user: Hello?')
})

test('what was refused for a run that cannot be found has failed, and is sent again as the same request', async () => {
  const sent: Record<string, unknown>[] = []
  const refused = { error: 'The previous run of this chat is still active.', code: 'run_active' }
  const done = [
    frame('meta', { run_id: 'r', chatId: 'c' }),
    frame('messages', { run_id: 'r', new_messages: [] }),
    'event: end\ndata: [DONE]\n\n',
  ]
  let isCut = false
  const scripted: typeof fetch = async (_input, init) => {
    if (isCut) throw new TypeError('Failed to fetch')
    if (init?.method !== 'POST') return Response.json({ data: [] })
    sent.push(JSON.parse(init.body as string))
    isCut = sent.length === 1
    if (isCut) return Response.json(refused, { status: 409 })
    return new Response(done.join(''), { headers: { 'content-type': 'text/event-stream' } })
  }
  const client = createClient({ url: 'http://platform.test', integration: 'i', fetch: scripted, retryDelaysMs: [] })
  const conversation = new Conversation(client, 'mine')
  onTestFinished(conversation.open())
  await until(conversation, isIdle)

  await conversation.send('Hello?', true)
  expect(conversation.state()).toMatchObject({ status: 'error', error: { code: 'connection_lost' } })
  expect(shown(conversation.state())).toEqual(['user: Hello?', 'assistant:  [failed]'])
  isCut = false
  await conversation.retry()
  expect(conversation.state()).toMatchObject({ status: 'idle', error: null })
  expect(sent[1]).toEqual(sent[0])
})

test('a history that could not be loaded is loaded again', async () => {
  let isCut = true
  const scripted: typeof fetch = async () => {
    if (isCut) throw new TypeError('Failed to fetch')
    return Response.json({ data: [] })
  }
  const client = createClient({ url: 'http://platform.test', integration: 'i', fetch: scripted, retryDelaysMs: [] })
  const conversation = new Conversation(client, 'mine')
  onTestFinished(conversation.open())
  await until(conversation, ({ status: state }) => state === 'error')

  await conversation.retry()
  expect(conversation.state()).toMatchObject({ status: 'error', error: { code: 'connection_lost' } })
  isCut = false
  const again = conversation.retry()
  expect(conversation.state().status).toBe('resuming')
  await again
  expect(conversation.state()).toMatchObject({ status: 'idle', error: null })
})

/** A server whose answers are written down, each a list of frames. */
function fetchOf(...answers: readonly (readonly string[])[]): { fetch: typeof fetch; sent: unknown[] } {
  const left = [...answers]
  const sent: unknown[] = []
  const scripted: typeof fetch = async (_input, init) => {
    sent.push(JSON.parse(init?.body as string))
    return new Response(left.shift()!.join(''), { headers: { 'content-type': 'text/event-stream' } })
  }
  return { fetch: scripted, sent }
}

const frame = (event: string, data: object): string => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`

test('calls that wait are shown, what is sent meanwhile waits too, and the run goes on when all are decided', async () => {
  const approvals = ['a', 'b'].map((call_id) => ({
    call_id,
    tool: 'refund',
    arguments: '{}',
    agent: 'Solo',
    edit: false,
    token: call_id,
  }))
  const answer = { type: 'message', id: 'm', role: 'assistant', content: 'Done.', agent: 'Solo' }
  const end = 'event: end\ndata: [DONE]\n\n'
  const meta = frame('meta', { run_id: 'r' })
  const done = [meta, frame('messages', { run_id: 'r', new_messages: [answer] }), end]
  const waits = [
    meta,
    ...approvals.map((approval) => frame('approval_requested', approval)),
    frame('messages', { run_id: 'r', new_messages: [], status: 'waiting', approvals }),
    end,
  ]
  const { fetch, sent } = fetchOf(waits, done, done)
  const conversation = new Conversation(createClient({ url: 'http://agents.test', fetch }))
  onTestFinished(conversation.open())
  await conversation.send('Refund both', true)
  expect(conversation.state()).toMatchObject({ status: 'waiting', approvals: [{ call_id: 'a' }, { call_id: 'b' }] })
  void conversation.send('And then?', true)

  await conversation.decide('a', (run) => run.approve('a'))
  expect(conversation.state().approvals).toMatchObject([{ call_id: 'b' }])
  expect(sent).toHaveLength(1)
  await conversation.decide('b', (run) => run.reject('b', 'No.'))
  const state = await until(conversation, (each) => isIdle(each) && sent.length === 3)

  expect(state.messages.map(({ role }) => role)).toEqual(
    ['user', 'assistant', 'user', 'assistant'].slice(0, state.messages.length),
  )
  expect(sent[1]).toMatchObject({
    approvals: [
      { call_id: 'a', approve: true },
      { call_id: 'b', approve: false, reason: 'No.' },
    ],
  })
  expect(sent[2]).toMatchObject({ message: 'And then?' })
  await conversation.decide('a', (run) => run.approve('a'))
  expect(conversation.state()).toMatchObject({ status: 'error', error: { code: 'approval_not_found' } })
})

describe('a conversation on the platform', () => {
  async function openPlatform(tools: AgentOptions['tools'] = []) {
    const platform = await startPlatform('pglite', { agencies: { shop: soloAgency({ tools }).solo } })
    closeAfterTest(() => platform.close())
    const { url, token, integrationId: integration } = await platform.client()
    const open = (chat: string, fetchIt = fetch): Conversation => {
      const client = createClient({ url, token, integration, fetch: fetchIt, retryDelaysMs: [0, 10, 100, 400] })
      const conversation = new Conversation(client, chat)
      onTestFinished(conversation.open())
      return conversation
    }
    return { provider: platform.provider, open }
  }

  test('another page shows the history and the run that goes on, with its question', async () => {
    const { provider, open } = await openPlatform()
    const gate = provider.gate()
    provider.script([text('One.'), textDeltas(['Tw', hold(gate), 'o.'])])
    const first = open('mine')
    await first.send('First?', true)
    void first.send('Second?', true)
    await until(first, (state) => shown(state).at(-1)!.includes('Tw'))

    const second = open('mine')
    const state = await until(second, (each) => shown(each).length === 4)
    expect(shown(state).slice(0, 3)).toEqual(['user: First?', 'assistant: One.', 'user: Second?'])
    gate.release()
    const expected = ['user: First?', 'assistant: One.', 'user: Second?', 'assistant: Two.']
    expect(shown(await until(first, isIdle))).toEqual(expected)
    expect(shown(await until(second, isIdle))).toEqual(expected)
  })

  test('a message that must not wait is refused when another page has begun a run, which is shown', async () => {
    const { provider, open } = await openPlatform()
    const gate = provider.gate()
    provider.script([textDeltas(['On', hold(gate), 'e.'])])
    const [first, second] = [open('mine'), open('mine')]
    await Promise.all([until(first, isIdle), until(second, isIdle)])
    void first.send('First?', true)
    await until(first, ({ connection }) => connection === 'open')

    await expect(second.send('Second?', false)).rejects.toMatchObject({ code: 'run_active' })
    gate.release()
    expect(shown(await until(second, isIdle))).toEqual(['user: First?', 'assistant: One.'])
  })

  test('after a reload, a call that was already decided is shown as decided while the other one still waits', async () => {
    const { provider, open } = await openPlatform([refund])
    const calls = [{ cents: 1 }, { cents: 2 }].map((cents) => toolCall('refund', cents))
    provider.script([calls, text('Paid back.')])
    const first = open('mine')
    await first.send('Refund both', true)
    const [decided, waits] = first.state().approvals.map(({ call_id: id }) => id)
    await first.decide(decided!, (run) => run.approve(decided!))

    const reloaded = open('mine')
    const { approvals, messages } = await until(reloaded, ({ status: state }) => state === 'waiting')
    expect(approvals).toMatchObject([{ call_id: waits }])
    expect(messages[1]?.parts).toMatchObject([
      { id: decided, state: 'running' },
      { id: waits, state: 'approval' },
    ])
    await reloaded.decide(waits!, (run) => run.reject(waits!))
    expect(shown(reloaded.state()).at(-1)).toBe('assistant: (refund) (refund) Paid back.')
  })

  test.each(['has been answered', 'goes on'])(
    'a run that another page has decided on is shown when this page is looked at again: it %s',
    async (how) => {
      const page = stubPage()
      const { provider, open } = await openPlatform([refund])
      const gate = provider.gate()
      provider.script([[toolCall('refund', { cents: 1 })], [textDeltas(['Paid', hold(gate), ' back.'])]])
      const first = open('mine')
      await first.send('Refund it', true)
      const second = open('mine')
      await until(second, ({ status: state }) => state === 'waiting')
      const { approvals } = second.state()
      page.dispatchEvent(new Event('pageshow'))
      const [{ call_id: id } = { call_id: '' }] = approvals
      if (how === 'has been answered') gate.release()
      const decided = first.decide(id, (run) => run.approve(id))
      await until(first, (state) => shown(state).at(-1)!.includes('Paid'))
      if (how === 'has been answered') await decided

      page.dispatchEvent(new Event('pageshow'))
      await until(second, (state) => shown(state).at(-1)!.includes('Paid'))
      gate.release()
      expect(shown(await until(second, isIdle))).toEqual(['user: Refund it', 'assistant: (refund) Paid back.'])
    },
  )

  test('an answer that ends while another page loads the history is shown there', async () => {
    const { provider, open } = await openPlatform()
    const gate = provider.gate()
    provider.script([textDeltas(['On', hold(gate), 'e.'])])
    const first = open('mine')
    void first.send('First?', true)
    await until(first, (state) => shown(state).at(-1)!.includes('On'))
    const late = open('mine', async (input, init) => {
      const response = await fetch(input, init)
      if (!response.url.includes('/messages')) return response
      gate.release()
      await until(first, isIdle)
      return response
    })

    expect(shown(await until(late, isIdle))).toEqual(['user: First?', 'assistant: One.'])
  })

  test('what is sent while another page is answered waits for that, and shows it', async () => {
    const { provider, open } = await openPlatform()
    const gate = provider.gate()
    const first = open('mine')
    const second = open('mine')
    await until(second, isIdle)
    provider.script([textDeltas(['On', hold(gate), 'e.']), text('Two.')])
    void first.send('First?', true)
    await until(first, (state) => shown(state).at(-1)!.includes('On'))
    void second.send('Second?', true)

    const waits = await until(second, (state) => shown(state).length === 3)
    expect(shown(waits)).toEqual(['user: First?', expect.stringMatching(/^assistant: On/), 'user: Second? [queued]'])
    gate.release()
    const expected = ['user: First?', 'assistant: One.', 'user: Second?', 'assistant: Two.']
    expect(shown(await until(second, (state) => isIdle(state) && state.messages.length === 4))).toEqual(expected)
  })

  test('a long history comes in parts, and what failed says so after a reload', async () => {
    const { provider, open } = await openPlatform()
    provider.respond(() => text('Yes.'))
    const first = open('mine')
    for (let at = 0; at < 51; at += 1) await first.send(`${at}`, true)
    provider.respond(() => status(401))
    await first.send('Fail', true)

    const later = open('mine')
    const state = await until(later, isIdle)
    expect(state.hasEarlier).toBe(true)
    expect(shown(state).slice(-2)).toEqual(['user: Fail', 'assistant:  [failed]'])
    expect(state.messages.at(-1)).toMatchObject({ error: { code: 'upstream_auth_failed' }, parts: [] })
    await later.loadEarlier()
    expect(later.state()).toMatchObject({ hasEarlier: false })
    expect(shown(later.state())).toHaveLength(104)
    provider.respond(() => text('Now.'))
    await later.retry()
    expect(shown(later.state()).slice(-2)).toEqual(['user: Fail', 'assistant: Now.'])
    await later.edit(later.state().messages[0]!.id, 'x')
    expect(later.state().error).toMatchObject({ code: 'not_supported' })
  })
})
