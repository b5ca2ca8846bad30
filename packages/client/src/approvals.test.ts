import { describe, expect, test } from 'vitest'
import { memoryStorage } from '../../../tests/support/broken-connections.ts'
import { createClient } from './client.ts'
import { framesOf, META, SOON, startScriptedServer } from './scripted-server.test-support.ts'

const approvalOf = (call_id: string) => ({
  call_id,
  tool: 'refund',
  arguments: '{"order":7}',
  agent: 'Solo',
  agent_run_id: 'stay-1',
  expires_at: '2030-01-01T00:00:00Z',
  edit: true,
  token: `token of ${call_id}`,
})

const call = (call_id: string) => ({
  type: 'function_call',
  call_id,
  name: 'refund',
  arguments: '{"order":7}',
  agent: 'Solo',
})

/** A run that waits for these calls. */
function waitingFrames(...ids: readonly string[]): string[] {
  const approvals = ids.map(approvalOf)
  const result = { new_messages: ids.map(call), run_id: 'run-1', usage: null, status: 'waiting', approvals }
  return [
    ...approvals.map((each) => `event: approval_requested\ndata: ${JSON.stringify(each)}\n\n`),
    `event: messages\ndata: ${JSON.stringify(result)}\n\n`,
    'event: end\ndata: [DONE]\n\n',
  ]
}

describe('on the platform', () => {
  const openClient = (url: string) => createClient({ url, integration: 'int-1', retryDelaysMs: SOON })

  test('a decision is sent at once, and when all are there the same run is followed on', async () => {
    const waits = waitingFrames('a', 'b')
    const server = await startScriptedServer([...waits, ...framesOf(['Done.'])])
    server.next({ frames: waits }, { status: 200 }, { status: 200 })
    const run = openClient(server.url).stream({ message: 'Refund 7', chat: 'c' })

    const result = await run.result
    expect(result).toMatchObject({ status: 'waiting', approvals: [{ call_id: 'a' }, { call_id: 'b' }] })
    expect(run.parts).toMatchObject([{ state: 'approval' }, { state: 'approval' }])

    expect(await run.approve('a', { arguments: { order: 8 } })).toBeNull()
    expect(run.parts).toMatchObject([{ state: 'running' }, { state: 'approval' }])
    const next = (await run.reject('b', 'Not that one.'))!
    expect(await next.result).toMatchObject({ status: 'completed', text: 'Done.', run: 'run-1' })
    expect(next.parts).toMatchObject([{ id: 'a' }, { id: 'b' }, { type: 'text', text: 'Done.' }])

    const paths = server.requests.map(({ method, path }) => `${method} ${path}`)
    expect(paths).toEqual([
      'POST /get_completion_v2',
      'POST /v1/runs/run-1/approvals',
      'POST /v1/runs/run-1/approvals',
      `GET /v1/runs/run-1/events?starting_after=${waits.length}`,
    ])
    expect(server.requests[1]?.body).toEqual([{ callId: 'a', approve: true, arguments: { order: 8 } }])
    expect(server.requests[2]?.body).toEqual([{ callId: 'b', approve: false, reason: 'Not that one.' }])
  })

  test('a run whose log is lost asks for the calls that its end names', async () => {
    const end = waitingFrames('a').slice(1)
    const reset = `event: reset\ndata: ${JSON.stringify({ new_messages: [] })}\n\n`
    const server = await startScriptedServer([reset, ...end, ...framesOf(['Done.'])])
    server.next({ frames: [reset, ...end] })
    const run = openClient(server.url).stream('Refund 7')

    expect(await run.result).toMatchObject({ status: 'waiting' })
    expect(run.parts).toMatchObject([{ id: 'a', type: 'tool', state: 'approval', input: { order: 7 } }])
  })

  test('a decision that was made elsewhere is refused, and a lost one comes again', async () => {
    const waits = waitingFrames('a')
    const server = await startScriptedServer([...waits, ...framesOf(['Done.'])])
    server.next({ frames: waits }, { status: 409, body: { error: 'Decided.', code: 'approval_decided' } })
    const run = openClient(server.url).stream('Refund 7')
    await expect(run.approve('a')).rejects.toMatchObject({ code: 'approval_decided' })

    server.next('lost', { status: 200 })
    expect(await (await run.approve('a'))?.result).toMatchObject({ text: 'Done.' })
  })
})

describe('on a self-hosted server', () => {
  test('the decisions go out together, with the history, what was asked for and the tokens', async () => {
    const server = await startScriptedServer(framesOf(['Done.']))
    server.next({ frames: waitingFrames('a', 'b') })
    const histories = new Map()
    const client = createClient({ url: server.url, histories })
    const run = client.stream({ message: 'Refund 7', chat: 'c', agent: 'Solo', context: { tenant: 't' } })

    expect(await run.approve('a')).toBeNull()
    expect(server.requests).toHaveLength(1)
    const next = (await run.reject('b', 'No.'))!
    expect(await next.result).toMatchObject({ status: 'completed', text: 'Done.' })

    expect(server.requests[1]?.body).toEqual({
      chat_history: [call('a'), call('b')],
      recipient_agent: 'Solo',
      user_context: { tenant: 't' },
      approvals: [
        { call_id: 'a', approve: true, token: 'token of a' },
        { call_id: 'b', approve: false, reason: 'No.', token: 'token of b' },
      ],
    })
    expect(histories.get('c')).toHaveLength(3)
    expect(next.parts).toHaveLength(3)
  })

  test('decisions that the server does not understand are not taken, and can be put right, also after a reload', async () => {
    const storage = memoryStorage()
    const histories = new Map()
    const server = await startScriptedServer(framesOf(['Done.']))
    const refusal = { error: 'approvals.0.arguments: must be an object', code: 'invalid_request' }
    server.next({ frames: waitingFrames('a', 'b') }, { status: 422, body: refusal })
    const client = createClient({ url: server.url, histories, storage, resume: true, retryDelaysMs: SOON })
    const run = client.stream({ message: 'Refund 7', chat: 'c' })

    await run.approve('a', { arguments: 'seven' })
    await expect(run.approve('b')).rejects.toMatchObject({ status: 422, message: refusal.error })
    expect(run.parts).toMatchObject([
      { state: 'approval', approval: { call_id: 'a' } },
      { state: 'approval', approval: { call_id: 'b' } },
    ])
    expect([...storage.kept.values()].map((text) => JSON.parse(text))).toMatchObject([
      { run: 'run-1', message: 'Refund 7' },
    ])

    expect(await run.approve('a', { arguments: { order: 7 } })).toBeNull()
    expect(await (await run.approve('b'))?.result).toMatchObject({ status: 'completed', text: 'Done.' })
    expect(server.requests[2]?.body).toMatchObject({ approvals: [{ arguments: { order: 7 } }, { call_id: 'b' }] })
    expect(histories.get('c')).toHaveLength(3)
  })

  test('a page that is loaded again decides too, and no message is kept twice', async () => {
    const storage = memoryStorage()
    const histories = new Map()
    const open = () => createClient({ url: server.url, histories, storage, resume: true, retryDelaysMs: SOON })
    const server = await startScriptedServer(framesOf(['Done.']))
    server.next({ frames: waitingFrames('a') }, { frames: waitingFrames('a') })
    await open().stream({ message: 'Refund 7', chat: 'c' }).result

    const again = (await open().attach({ chat: 'c' }))!
    expect(again.message).toBe('Refund 7')
    expect(await again.result).toMatchObject({ status: 'waiting' })
    expect(histories.get('c')).toHaveLength(1)
    expect(await (await again.approve('a'))?.result).toMatchObject({ status: 'completed' })
    expect(histories.get('c')).toHaveLength(2)
    expect(storage.kept.size).toBe(0)
  })
})

test('a run that goes on after approvals has its first parts again when it is attached to', async () => {
  const storage = memoryStorage()
  const open = () => createClient({ url: server.url, histories, storage, resume: true, retryDelaysMs: [] })
  const histories = new Map()
  const server = await startScriptedServer(framesOf(['Done.']))
  server.next({ frames: waitingFrames('a') }, { cutAfter: META.length + 20 })
  const run = open().stream({ message: 'Refund 7', chat: 'c' })
  await expect((await run.approve('a'))!.result).rejects.toMatchObject({ code: 'connection_lost' })

  const again = (await open().attach({ chat: 'c' }))!
  expect((await open().history('c')).entries).toMatchObject([{ run: 'run-1' }])
  await again.result
  expect(again.parts).toMatchObject([{ id: 'a', name: 'refund' }, { text: 'Done.' }])
  expect(histories.get('c')).toHaveLength(2)
})

test('what does not wait cannot be decided on', async () => {
  const server = await startScriptedServer(framesOf(['Done.']))
  const run = createClient({ url: server.url }).stream('Hi')

  await expect(run.approve('a')).rejects.toMatchObject({ code: 'approval_not_found' })
})
