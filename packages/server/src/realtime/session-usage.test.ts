import { readdir } from 'node:fs/promises'
import { Agency, Agent } from '@bureau/framework'
import { expect, test } from 'vitest'
import { Gate } from '../../../../tests/support/fake-provider.ts'
import { temporaryFolder } from '../../../../tests/support/temporary-folder.ts'
import { call, speech } from './fake-realtime-provider.test-support.ts'
import { type RealtimeServer, startRealtimeServer } from './realtime.test-support.ts'

const refund = new Agent({ name: 'Refunds', instructions: 'You give money back.' })
const desk = new Agent({ name: 'Desk', instructions: 'You are the desk.' })
const shop = new Agency({ name: 'Shop', entryPoint: desk, flows: [[desk, refund, 'handoff']] })
const PATH = '/my_shop/realtime'

/** 30 tokens of text and 50 of audio in, 10 of each from the cache, 10 and 40 out. */
const SPOKEN = {
  total_tokens: 150,
  input_tokens: 100,
  output_tokens: 50,
  input_token_details: {
    text_tokens: 40,
    audio_tokens: 60,
    cached_tokens: 20,
    cached_tokens_details: { text_tokens: 10, audio_tokens: 10 },
  },
  output_token_details: { text_tokens: 10, audio_tokens: 40 },
}
const COST = (30 * 4 + 50 * 32 + 20 * 0.4 + 10 * 16 + 40 * 64) / 1e6

async function start(): Promise<RealtimeServer> {
  const logsDir = await temporaryFolder()
  const options = { metrics: true, enableLogging: true, logsDir }
  const server = await startRealtimeServer({ agencies: { 'my shop': shop }, options })
  server.provider.usage = SPOKEN
  return server
}

async function readMetrics(server: RealtimeServer): Promise<Map<string, number>> {
  const lines = (await server.get('/metrics')).split('\n').filter((line) => line.startsWith('bureau_'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]))
}

const OPEN = 'bureau_realtime_sessions{agency="my_shop"}'
const ENDED = 'bureau_realtime_session_duration_seconds_count{agency="my_shop"}'
const spentBy = (agent: string): string => `agency="my_shop",agent="${agent}",model="gpt-realtime"`

test('what a session spends is counted answer by answer, for the agent that spoke, at the price of audio and text', async () => {
  const server = await start()
  server.provider.script([[speech('One')], [call('transfer_to_Refunds', {}, 'c1')], [speech('Two')]])
  const client = await server.connect(PATH)

  client.send({ type: 'response.create' })
  await client.next('raw_model_event:response.done')
  const during = await readMetrics(server)
  client.send({ type: 'response.create' })
  await client.next('handoff')
  await client.next('raw_model_event:response.done')
  await client.next('raw_model_event:response.done')

  expect(during.get(OPEN)).toBe(1)
  expect(during.get(ENDED)).toBeUndefined()
  expect(during.get(`bureau_tokens_total{${spentBy('Desk')},type="input"}`)).toBe(100)
  const after = await readMetrics(server)
  for (const [agent, answers] of [
    ['Desk', 2],
    ['Refunds', 1],
  ] as const) {
    expect(after.get(`bureau_tokens_total{${spentBy(agent)},type="input"}`)).toBe(100 * answers)
    expect(after.get(`bureau_tokens_total{${spentBy(agent)},type="cached"}`)).toBe(20 * answers)
    expect(after.get(`bureau_tokens_total{${spentBy(agent)},type="output"}`)).toBe(50 * answers)
    expect(after.get(`bureau_cost_usd_total{${spentBy(agent)}}`)).toBeCloseTo(COST * answers, 10)
  }
})

test('the end of a session is logged with what it has spent, interrupted answers included', async () => {
  const server = await start()
  const gate = new Gate()
  server.provider.script([[speech('One')], [speech('Two', [Buffer.alloc(480), Buffer.alloc(480)], gate)]])
  const client = await server.connect(PATH, { headers: { 'x-agency-log-id': 'call-1' } })
  client.send({ type: 'response.create' })
  await client.next('raw_model_event:response.done')
  client.send({ type: 'response.create' })
  await client.next('audio')
  client.send({ type: 'response.cancel' })
  await client.next('raw_model_event:response.done')

  client.socket.close()

  await expect.poll(async () => (await readMetrics(server)).get(OPEN)).toBe(0)
  gate.release()
  expect((await readMetrics(server)).get(ENDED)).toBe(1)
  const records = JSON.parse(await server.get('/get_logs?log_id=call-1'))
  const [ended] = records.filter(({ message }: { message: string }) => message === 'realtime session ended')
  expect(ended.details.fields).toMatchObject({ agency: 'my_shop', model: 'gpt-realtime' })
  expect(ended.details.fields.usage).toMatchObject({ request_count: 2, input_tokens: 200, output_tokens: 100 })
  expect(ended.details.fields.usage.total_cost).toBeCloseTo(COST * 2, 10)
})

test('a session that never began and one without usage count as nothing spent', async () => {
  const server = await start()
  server.provider.usage = undefined
  server.provider.script([[speech('One')]])
  const client = await server.connect(PATH)
  client.send({ type: 'response.create' })
  await client.next('raw_model_event:response.done')
  server.provider.refuseWith = 401
  const refused = await server.connect(PATH)
  await refused.closed
  client.socket.close()

  await expect.poll(async () => (await readMetrics(server)).get(OPEN)).toBe(0)
  const metrics = await readMetrics(server)
  expect(metrics.get(ENDED)).toBe(2)
  expect(metrics.get(`bureau_tokens_total{${spentBy('Desk')},type="input"}`)).toBe(0)
  expect(metrics.get(`bureau_cost_usd_total{${spentBy('Desk')}}`)).toBe(0)
})

test('writing down what the user said counts for the model that did it', async () => {
  const server = await start()
  const client = await server.connect(PATH)
  const session = await server.provider.nextSession()
  client.send({ type: 'input_audio_buffer', audio: 'AAAA', commit: true })
  const { data } = await client.next('raw_model_event:input_audio_buffer.committed')

  const details = { text_tokens: 10, audio_tokens: 90 }
  const usage = {
    type: 'tokens',
    total_tokens: 150,
    input_tokens: 100,
    input_token_details: details,
    output_tokens: 50,
  }
  session.transcribe(data.item_id, 'Hello', usage)
  session.transcribe(data.item_id, 'Hello', { type: 'duration', seconds: 3 })
  for (const _ of 'ab') await client.next('raw_model_event:conversation.item.input_audio_transcription.completed')

  const metrics = await readMetrics(server)
  const labels = 'agency="my_shop",agent="Desk",model="gpt-4o-mini-transcribe"'
  expect(metrics.get(`bureau_tokens_total{${labels},type="input"}`)).toBe(100)
  expect(metrics.get(`bureau_tokens_total{${labels},type="output"}`)).toBe(50)
  expect(metrics.get(`bureau_cost_usd_total{${labels}}`)).toBeGreaterThan(0)
})

test('a handshake that is refused is recorded under no id', async () => {
  const logsDir = await temporaryFolder()
  const options = { enableLogging: true, logsDir }
  const server = await startRealtimeServer({ agencies: { 'my shop': shop }, token: 'secret', options })
  await expect(server.connect(PATH, { headers: { 'x-agency-log-id': 'call-1' } })).rejects.toThrow('401')

  await server.close()

  expect(await readdir(logsDir)).toEqual([])
})
