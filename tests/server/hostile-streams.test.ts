import { Agency, Agent, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text, toolCall, unknownEvent } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'

describe('ids of the provider', () => {
  test.each([
    'msg_"1"',
    'a\r\nb',
    '}}\n\nevent: end\ndata: [DONE]\n\n',
    'x","agent":"Evil',
    '\\',
    '\u2028',
    '\ud800',
    '',
  ])('%j stays within its event', async (id) => {
    const server = await startTestServer({ agencies: soloAgency() })
    const delta = { type: 'response.output_text.delta', item_id: id, delta: `said ${id}`, output_index: 0 }
    server.provider.script([[unknownEvent(delta), text('hello')]])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    const [event, ...others] = stream.events.filter(({ data }) => data?.delta === delta.delta)
    expect(others).toEqual([])
    expect(event).toMatchObject({ agent: 'Solo', callerAgent: null, data: delta })
    expect([id, undefined]).toContain(event.item_id)
    expect(stream.outline.filter((step) => step === 'end')).toHaveLength(1)
    expect(stream.result.new_messages).toHaveLength(2)
  })
})

test.each(['Quote "d"', "O'Neil", 'Ünï 🤖', '__proto__', 'constructor', '<script>', 'back\\slash', '日本'])(
  'an agent named %s is asked, streamed, addressed and described under its name',
  async (name) => {
    const boss = new Agent({ name: 'Boss', instructions: 'Delegate.', model: 'gpt-test' })
    const odd = new Agent({ name, instructions: 'I am odd.', model: 'gpt-test' })
    const server = await startTestServer({ agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, odd]] }) } })
    const message = { recipient_agent: name, message: 'x', additional_instructions: '' }
    server.provider.respond(({ instructions, toolOutputs }) => {
      if (instructions === 'I am odd.') return text('yes')
      return toolOutputs.length > 0 ? text('done') : toolCall('send_message', message)
    })

    const stream = await (await server.stream('/two/get_response_stream', { message: 'hi' })).all()
    const addressed = await server.post('/two/get_response', {
      message: 'and you?',
      recipient_agent: name,
      chat_history: stream.result.new_messages,
    })
    const metadata = await server.get('/two/get_metadata')

    expect(stream.events.filter(({ agent, callerAgent }) => agent === name && callerAgent === 'Boss')).not.toEqual([])
    expect(stream.result.new_messages.map(({ agent }: Json) => agent)).toContain(name)
    expect(addressed.body.response).toBe('yes')
    expect(metadata.body.metadata.agents).toEqual(['Boss', name])
    expect(server.provider.rejected).toEqual([])
  },
)

describe('events of a tool of the agency', () => {
  const circular: Record<string, unknown> & { type: string } = { type: 'circle' }
  circular['self'] = circular
  const events: Readonly<Record<string, Record<string, unknown> & { type: string }>> = {
    'a number that JSON does not have': { type: 'own', count: 1n },
    'a circle': circular,
    'a text that cannot be made': {
      type: 'own',
      toJSON: () => {
        throw new Error('no')
      },
    },
  }
  const emit = tool({
    name: 'emit',
    description: 'Tells something.',
    parameters: z.object({ which: z.string() }),
    execute: ({ which }, { run }) => {
      run!.emit(events[which] ?? { type: 'own', agent: 'Fake', callerAgent: 'Fake', agent_run_id: 'x', said: which })
      return 'told'
    },
  })

  test.each(Object.keys(events))('%s: an error frame takes its place, and the stream goes on', async (which) => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [emit] }) })
    server.provider.script([toolCall('emit', { which }), text('done')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.events.filter(({ error }) => error)).toEqual([
      { error: 'An event of the agency was left out: it is not JSON.', code: 'internal_error' },
    ])
    expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
    expect(stream.result.new_messages.at(-1).content[0].text).toBe('done')
  })

  test('with AG-UI it is left out', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [emit] }), enableAgui: true })
    server.provider.script([toolCall('emit', { which: 'a circle' }), text('done')])
    const messages = [{ id: 'm', role: 'user', content: 'hi' }]

    const stream = await (
      await server.stream('/solo/get_response_stream', { threadId: 't', runId: 'r', messages })
    ).all()

    expect(JSON.parse(stream.frames.at(-1)!.data).type).toBe('RUN_FINISHED')
  })

  test('cannot claim to come from somebody else', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [emit] }) })
    server.provider.script([toolCall('emit', { which: 'lie' }), text('done')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    const [event] = stream.events.filter(({ type }) => type === 'own')
    expect(event).toMatchObject({ said: 'lie', agent: 'Solo', callerAgent: null })
    expect(event.agent_run_id).toMatch(/^agent_run_/)
  })
})
