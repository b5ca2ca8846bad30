import {
  CancelTaskRequest,
  GetTaskRequest,
  ListTasksRequest,
  StreamResponse,
  SubscribeToTaskRequest,
} from '@a2a-js/sdk'
import { Agency, Agent, type InputGuardrail } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { editablePay } from '../support/conversations.ts'
import { type Binding, BINDINGS, connectTo, say, send, shown, updates } from './a2a-client.ts'
import { hold, status, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const connect = ({ url }: TestServer, binding: Binding, agency = 'solo', headers: Record<string, string> = {}) =>
  connectTo(`${url}/a2a/${agency}`, binding, headers)

const states = (all: readonly Json[]): string[] =>
  all.flatMap(({ task, statusUpdate }) => (task ?? statusUpdate)?.status.state ?? [])

describe.each(BINDINGS)('a client that speaks %s', (binding) => {
  test('sends a message and waits for the answer', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Paris.')])
    const client = await connect(server, binding)

    const task = await send(client, 'The capital of France?')

    expect(task).toMatchObject({
      id: expect.any(String),
      contextId: expect.stringMatching(/^t_/),
      status: { state: 'TASK_STATE_COMPLETED', timestamp: expect.stringMatching(/^\d{4}-.*Z$/) },
      artifacts: [{ artifactId: 'answer', parts: [{ text: 'Paris.' }] }],
      history: [{ role: 'ROLE_USER', parts: [{ text: 'The capital of France?' }] }],
    })
  })

  test('goes on in the context of an earlier task', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Paris.'), text('Two million.')])
    const client = await connect(server, binding)
    const { contextId, id } = await send(client, 'The capital of France?')

    const second = await send(client, 'How many people?', { contextId })

    expect(second).toMatchObject({ contextId, artifacts: [{ parts: [{ text: 'Two million.' }] }] })
    expect(second.id).not.toBe(id)
    expect(JSON.stringify(server.provider.modelRequests[1]!.body)).toMatch(/capital of France.*Paris/)
  })

  test('follows the answer while it is written', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([textDeltas(['Two ', 'million "people".'])])
    const client = await connect(server, binding)

    const all = await updates(client.sendMessageStream(say('How many?')))

    expect(Object.keys(all[0])).toEqual(['task'])
    expect(['TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING']).toContain(states(all)[0])
    expect(states(all).slice(-2)).toEqual(['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'])
    const chunks = all.flatMap(({ artifactUpdate }) => artifactUpdate ?? [])
    expect(chunks.map(({ artifact }) => artifact.parts[0].text)).toEqual(['Two ', 'million "people".', ''])
    expect(chunks.map(({ append = false, lastChunk = false }) => [append, lastChunk])).toEqual([
      [false, false],
      [true, false],
      [true, true],
    ])
  })

  test('gets an object where the agency answers with one', async () => {
    const { solo } = soloAgency({ outputType: z.object({ capital: z.string() }) })
    const server = await startTestServer({ agencies: { solo } })
    server.provider.script([text('{"capital":"Paris"}')])

    const task = await send(await connect(server, binding), 'France?')

    expect(task.artifacts[0].parts[0]).toMatchObject({ data: { capital: 'Paris' } })
  })

  test('sends data, text files and pictures', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Seen.')])
    const png = Buffer.from('89504e470d0a1a0a', 'hex').toString('base64')

    await send(await connect(server, binding), [
      { data: { order: 7 } },
      { raw: Buffer.from('a note').toString('base64'), mediaType: 'text/plain' },
      { raw: png, mediaType: 'image/png' },
    ])

    const sent = JSON.stringify(server.provider.modelRequests[0]!.body)
    expect(sent).toContain(String.raw`{\"order\":7}`)
    expect(sent).toContain('a note')
    expect(sent).toContain(`data:image/png;base64,${png}`)
  })

  test('does not wait when it says so, and asks later', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([[hold(gate), text('Done.')]])
    const client = await connect(server, binding)

    const begun = await send(client, 'Work', { configuration: { returnImmediately: true } })
    await gate.reached()
    const working = shown(await client.getTask(GetTaskRequest.fromJSON({ id: begun.id })))
    const stream = client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id: begun.id }))
    const first = await stream.next()
    gate.release()
    const followed = await updates(stream)

    expect(['TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING']).toContain(begun.status.state)
    expect(working.status.state).toBe('TASK_STATE_WORKING')
    expect(Object.keys(StreamResponse.toJSON(first.value as StreamResponse) as Json)).toEqual(['task'])
    expect(states(followed).at(-1)).toBe('TASK_STATE_COMPLETED')
    const done = shown(await client.getTask(GetTaskRequest.fromJSON({ id: begun.id })))
    expect(done.artifacts[0].parts[0].text).toBe('Done.')
  })

  test('comes back to a task in the middle of its answer: what was written is in the task, the rest follows', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Two ', hold(gate), 'million.'])])
    const client = await connect(server, binding)
    const first = client.sendMessageStream(say('How many?'))
    let id = ''
    for await (const update of first) {
      const { task, artifactUpdate } = StreamResponse.toJSON(update) as Json
      id ||= task?.id
      if (artifactUpdate) break // and hangs up
    }

    const stream = client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id }))
    const { task } = StreamResponse.toJSON((await stream.next()).value as StreamResponse) as Json
    gate.release()
    const rest = await updates(stream)

    const pieces = rest.flatMap(({ artifactUpdate }) => artifactUpdate?.artifact.parts[0].text ?? [])
    expect((task.artifacts?.[0]?.parts[0].text ?? '') + pieces.join('')).toBe('Two million.')
    expect(states(rest).at(-1)).toBe('TASK_STATE_COMPLETED')
  })

  test('cancels a task', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Hello ', hold(gate)])])
    const client = await connect(server, binding)
    const { id } = await send(client, 'Work', { configuration: { returnImmediately: true } })
    await gate.reached()

    const cancelled = shown(await client.cancelTask(CancelTaskRequest.fromJSON({ id })))

    expect(cancelled.status.state).toBe('TASK_STATE_CANCELED')
    await server.provider.waitForAborts(1)
    await expect(client.cancelTask(CancelTaskRequest.fromJSON({ id }))).rejects.toThrow('The task has ended')
  })

  test('sees that a run has failed, or was stopped by a guardrail', async () => {
    const guardrail: InputGuardrail = {
      name: 'polite',
      execute: async ({ input }) => ({ tripwireTriggered: JSON.stringify(input).includes('rude'), outputInfo: null }),
    }
    const { solo } = soloAgency({ inputGuardrails: [guardrail] })
    const server = await startTestServer({ agencies: { solo } })
    server.provider.respond(() => status(401))
    const client = await connect(server, binding)

    const failed = await send(client, 'hi')
    const rejected = await send(client, 'rude')

    expect(failed.status).toMatchObject({
      state: 'TASK_STATE_FAILED',
      message: { parts: [{ text: expect.stringContaining('API key') }, { data: { code: 'upstream_auth_failed' } }] },
    })
    expect(['TASK_STATE_REJECTED', 'TASK_STATE_COMPLETED']).toContain(rejected.status.state)
  })

  test('lists its tasks, those that changed last first, page by page', async () => {
    const server = await startTestServer({ agencies: { ...soloAgency(), other: soloAgency().solo } })
    server.provider.respond(() => text('Yes.'))
    const client = await connect(server, binding)
    const ids: string[] = []
    for (const question of ['a', 'b', 'c']) ids.push((await send(client, question)).id)
    await send(await connect(server, binding, 'other'), 'elsewhere')

    const list = async (request: object): Promise<Json> => client.listTasks(ListTasksRequest.fromJSON(request))
    const first = await list({ pageSize: 2 })
    const second = await list({ pageSize: 2, pageToken: first.nextPageToken })

    expect([...first.tasks, ...second.tasks].map(({ id }: Json) => id)).toEqual(ids.toReversed())
    expect([first.totalSize, second.nextPageToken]).toEqual([3, ''])
    expect(first.tasks[0].artifacts ?? []).toEqual([])
    const withArtifacts = await list({ includeArtifacts: true, status: 'TASK_STATE_COMPLETED', historyLength: 0 })
    expect(shown(withArtifacts.tasks[0])).toMatchObject({ artifacts: [{ artifactId: 'answer' }] })
    expect(shown(withArtifacts.tasks[0])).not.toHaveProperty('history')
    expect((await list({ status: 'TASK_STATE_WORKING' })).tasks).toEqual([])
  })

  test('hangs up while it waits: the task goes on', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([[hold(gate), text('Done.')]])
    const client = await connect(server, binding)
    const leaving = new AbortController()
    const waiting = client.sendMessage(say('Work'), { signal: leaving.signal })
    await gate.reached()

    leaving.abort()
    await expect(waiting).rejects.toThrow(/abort/i)
    gate.release()

    const [task] = (await client.listTasks(ListTasksRequest.fromJSON({}))).tasks
    const done = await updates(client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id: task!.id }))).catch(
      () => [],
    )
    const end = shown(await client.getTask(GetTaskRequest.fromJSON({ id: task!.id })))
    expect(end.status.state).toBe('TASK_STATE_COMPLETED')
    expect(done.length).toBeGreaterThanOrEqual(0)
  })
})

describe.each(BINDINGS)('a call that a person must approve, over %s', (binding) => {
  const open = async () => {
    const { pay, paid } = editablePay()
    const server = await startTestServer({ agencies: soloAgency({ tools: [pay] }) })
    server.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' }), text('Done.'), text('Bye.')])
    return { server, paid, client: await connect(server, binding) }
  }
  const decide = (more: object = {}): object[] => [
    { data: { approvals: [{ call_id: 'call_p', approve: true, ...more }] } },
  ]

  test('the task needs input, says which, and goes on with the decision', async () => {
    const { paid, client } = await open()

    const waiting = await send(client, 'Pay.')
    const { id: taskId, contextId } = waiting
    const done = await send(client, decide({ arguments: { euros: 3 } }), { taskId, contextId })
    const next = await send(client, 'Thanks.', { contextId })

    expect(waiting.status).toMatchObject({
      state: 'TASK_STATE_INPUT_REQUIRED',
      message: {
        parts: [
          { text: 'A person must approve the call pay({"euros":5}) first.' },
          {
            data: {
              approvals: [{ call_id: 'call_p', tool: 'pay', arguments: '{"euros":5}', agent: 'Solo', edit: true }],
            },
          },
        ],
      },
    })
    expect(JSON.stringify(waiting)).not.toContain('token')
    expect(done).toMatchObject({
      id: taskId,
      status: { state: 'TASK_STATE_COMPLETED' },
      artifacts: [{ parts: [{ text: 'Done.' }] }],
    })
    expect(paid).toEqual([3])
    expect(next).toMatchObject({ contextId, artifacts: [{ parts: [{ text: 'Bye.' }] }] })
  })

  test('the stream ends with it, and another one shows what follows', async () => {
    const { client } = await open()

    const asked = await updates(client.sendMessageStream(say('Pay.')))
    const [{ task }] = asked
    const rest = await updates(client.sendMessageStream(say(decide({ approve: false }), { taskId: task.id })))

    expect(asked.at(-1).statusUpdate.status.state).toBe('TASK_STATE_INPUT_REQUIRED')
    expect(rest[0].task).toMatchObject({ id: task.id, status: { state: 'TASK_STATE_WORKING' } })
    expect(rest.at(-1).statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')
  })

  test.each([
    ['words', [{ text: 'Yes.' }], /data part/],
    ['a decision without its call', [{ data: { approvals: [{ approve: true }] } }], /call_id/],
    ['arguments that do not fit', decide({ arguments: { euros: 'x' } }), /pay/],
    ['a call that does not wait', decide({ call_id: 'call_x' }), /"call_x" does not wait/],
  ] as const)('%s instead of a decision are refused, and carry nothing out', async (_, parts, words) => {
    const { client, paid } = await open()
    const { id: taskId } = await send(client, 'Pay.')

    await expect(send(client, [...parts], { taskId })).rejects.toThrow(words)

    const again = shown(await client.getTask(GetTaskRequest.fromJSON({ id: taskId })))
    expect([again.status.state, paid]).toEqual(['TASK_STATE_INPUT_REQUIRED', []])
  })

  test('is cancelled with its task', async () => {
    const { client, paid } = await open()
    const { id } = await send(client, 'Pay.')

    const cancelled = shown(await client.cancelTask(CancelTaskRequest.fromJSON({ id })))

    expect(cancelled.status.state).toBe('TASK_STATE_CANCELED')
    await expect(send(client, decide(), { taskId: id })).rejects.toThrow(/has ended/)
    expect(paid).toEqual([])
  })

  test('is cancelled, or was decided about before: a task does not go on once it was cancelled', async () => {
    const { server, client } = await open()
    const { id } = await send(client, 'Pay.')

    const received = server.handled(binding === 'JSONRPC' ? '/a2a/solo' : '/a2a/solo/message:send')
    const deciding = send(client, decide(), { taskId: id })
    await received
    const cancelling = client.cancelTask(CancelTaskRequest.fromJSON({ id }))
    const [cancelled, decided] = await Promise.allSettled([cancelling, deciding])

    expect(decided.status).toBe('fulfilled')
    const { status } = shown(await client.getTask(GetTaskRequest.fromJSON({ id })))
    expect(status.state).toBe(cancelled.status === 'fulfilled' ? 'TASK_STATE_CANCELED' : 'TASK_STATE_COMPLETED')
  })
})

describe('the card', () => {
  test('says what the agency says of itself, and where it is', async () => {
    const helper = new Agent({
      name: 'Helper',
      description: 'Knows everything about orders.',
      instructions: 'secret',
      conversationStarters: ['Where is my order?'],
    })
    const server = await startTestServer({ agencies: { shop: new Agency({ name: 'Shop', entryPoint: helper }) } })

    const { body, headers } = await server.get('/a2a/shop/.well-known/agent-card.json')

    expect(body).toMatchObject({
      name: 'Shop',
      description: 'Knows everything about orders.',
      supportedInterfaces: BINDINGS.map((protocolBinding) => ({
        url: `${server.url}/a2a/shop`,
        protocolBinding,
        protocolVersion: '1.0',
      })),
      capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: false },
      skills: [{ id: 'shop', name: 'Helper', tags: ['shop'], examples: ['Where is my order?'] }],
    })
    expect(JSON.stringify(body)).not.toContain('secret')
    expect(headers.get('cache-control')).toBe('public, max-age=300')
    const again = await fetch(`${server.url}/a2a/shop/.well-known/agent-card.json`, {
      headers: { 'if-none-match': headers.get('etag')! },
    })
    expect(again.status).toBe(304)
  })

  test('of the host is that of its first agency; names of `serverUrl` are on it', async () => {
    const agencies = { ...soloAgency(), other: soloAgency().solo }
    const server = await startTestServer({ agencies, serverUrl: 'https://agents.example/' })

    const { body } = await server.get('/.well-known/agent-card.json')

    expect(body.supportedInterfaces[0].url).toBe('https://agents.example/a2a/solo')
  })

  test('needs the token, and says that everything does', async () => {
    const closed = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })
    const open = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' }, publicDocs: true })

    expect((await closed.get('/a2a/solo/.well-known/agent-card.json')).status).toBe(401)
    const { body } = await open.get('/a2a/solo/.well-known/agent-card.json')
    expect(body.securityRequirements).toEqual([{ schemes: { bearer: { list: [] } } }])
    expect(body.securitySchemes).toEqual({ bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } })
  })

  test('with the token, the client talks to the agency', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })
    server.provider.script([text('Hi.')])

    const task = await send(await connect(server, 'JSONRPC', 'solo', { authorization: 'Bearer right' }), 'hi')

    expect(task.status.state).toBe('TASK_STATE_COMPLETED')
  })

  test.each([{ a2a: false }, { resumeMs: 0 }])('is not there with %j', async (options) => {
    const server = await startTestServer({ agencies: soloAgency(), ...options })

    expect((await server.get('/a2a/solo/.well-known/agent-card.json')).status).toBe(404)
  })
})
