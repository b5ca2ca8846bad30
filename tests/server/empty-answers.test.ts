import { Agency, Agent, tool } from '@bureau/framework'
import { ScriptedModel } from '@bureau/framework/testing'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  completed,
  reasoning,
  refusal,
  text,
  toolCall,
  type Turn,
  unknownItem,
  webSearch,
} from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

// The loop of the agents SDK asks again, with the same input, until all turns are used.
describe('a model that has nothing to say is asked once', () => {
  test.each<[string, Turn]>([
    ['no item', [completed()]],
    ['an empty text', text('')],
    ['thoughts alone', reasoning({ summary: ['Hm.'] })],
    ['a search alone', webSearch('weather')],
    ['an item of an unknown kind alone', unknownItem({ type: 'future_item' })],
  ])('%s: the answer is empty', async (_, turn) => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([turn, turn])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()
    const whole = await server.post('/solo/get_response', { message: 'hi' })

    expect(stream.outline).not.toContain('error')
    expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
    expect(stream.result.usage.request_count).toBe(1)
    expect([whole.status, whole.body.response]).toEqual([200, ''])
    expect(server.provider.modelRequests).toHaveLength(2)
    const next = { message: 'and now?', chat_history: stream.result.new_messages }
    server.provider.script([text('yes')])
    expect((await server.post('/solo/get_response', next)).body.response).toBe('yes')
    expect(server.provider.rejected).toEqual([])
  })

  test('also when it is a model object', async () => {
    const model = new ScriptedModel([[]])
    const server = await startTestServer({ agencies: soloAgency({ model }) })

    const { status, body } = await server.post('/solo/get_response', { message: 'hi' })

    expect([status, body.response, model.calls.length]).toEqual([200, '', 1])
  })

  test('also when it is the demo model, whose tool has given back nothing', async () => {
    const silent = tool({ name: 'water_plants', description: '', parameters: z.object({}), execute: () => '' })
    const server = await startTestServer({ agencies: soloAgency({ model: 'demo', tools: [silent] }) })

    const { status, body } = await server.post('/solo/get_response', { message: 'water the plants' })

    expect([status, body.response, body.usage.request_count]).toEqual([200, '', 2])
  })

  test.each<[string, Turn]>([
    ['no item', [completed()]],
    ['an empty text', text('')],
  ])('%s where an object is expected: a clear error', async (_, turn) => {
    const server = await startTestServer({ agencies: soloAgency({ outputType: z.object({ city: z.string() }) }) })
    server.provider.script([turn])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.events.at(-1)).toMatchObject({ type: 'error', code: 'upstream_invalid_response' })
    expect(server.provider.modelRequests).toHaveLength(1)
  })
})

describe('a model that refuses', () => {
  test('200: its words are the answer, and the history keeps them as a refusal', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([refusal('I cannot help with that.')])

    const { status, body } = await server.post('/solo/get_response', { message: 'hi' })

    expect([status, body.response]).toEqual([200, 'I cannot help with that.'])
    expect(body.new_messages[1].content).toEqual([{ type: 'refusal', refusal: 'I cannot help with that.' }])
  })

  test('the agent that asked it reads its words', async () => {
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test' })
    const boss = new Agent({ name: 'Boss', instructions: 'Delegate.', model: 'gpt-test' })
    const server = await startTestServer({
      agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    const message = { recipient_agent: 'Worker', message: 'Do it', additional_instructions: '' }
    server.provider.script([toolCall('send_message', message), refusal('I will not.'), text('It refused.')])

    await server.post('/two/get_response', { message: 'go' })

    expect(server.provider.modelRequests[2]!.toolOutputs[0]!.output).toBe('I will not.')
  })
})
