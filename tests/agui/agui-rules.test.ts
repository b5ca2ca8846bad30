import { EventType } from '@ag-ui/core'
import { tool } from '@bureau/framework'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { pay } from '../support/conversations.ts'
import { text, toolCall, usage } from '../support/fake-provider.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { type Json, soloAgency } from '../support/test-server.ts'
import { aguiAgent, aguiBody, say, startAguiServer } from './agui.test-client.ts'

// Rules of the specification that no other test shows; docs/protocol-rules/ag-ui.md has all of them.

const STREAM = '/solo/get_response_stream'

const eventsOf = (frames: readonly { readonly data: string }[]): Json[] => frames.map(({ data }) => JSON.parse(data))

const add = tool({
  name: 'add',
  description: 'Adds.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
})

test.each([
  ['1.0', true],
  ['1.9', true],
  ['2.0', true],
  ['a version', false],
  [undefined, false],
])('a client of version %s is served, and told which version the stream speaks', async (protocolVersion, knowsAll) => {
  const server = await startAguiServer({ agencies: soloAgency() })
  server.provider.script([toolCall('paint', {}, { callId: 'call_p' })])
  const tools = [{ name: 'paint', description: 'Paints.' }]

  const { frames } = await (await server.stream(STREAM, aguiBody({ protocolVersion, tools }))).all()

  const events = eventsOf(frames)
  expect(events[0]).toMatchObject({ type: 'RUN_STARTED', protocolVersion: '1.0' })
  const pending = knowsAll ? { pendingToolCallIds: ['call_p'] } : {}
  expect(events.at(-1).outcome).toEqual({ type: 'success', ...pending })
})

test('a stream is frames of one event each, ended by line feeds alone, of kinds that the protocol has, without nulls', async () => {
  const server = await startAguiServer({ agencies: soloAgency({ tools: [add] }) })
  server.provider.script([toolCall('add', { a: 1, b: 2 }), [text('It is 3.'), usage({ input: 30, output: 5 })]])

  const stream = await (await server.stream(STREAM, aguiBody({ protocolVersion: '1.0' }))).all()

  expect(stream.text).not.toContain('\r')
  for (const frame of stream.text.split('\n\n').slice(0, -1)) expect(frame).toMatch(/^(?:data: \{.*\}|:.*)$/)
  const events = eventsOf(stream.frames)
  const kinds = new Set<string>(Object.values(EventType))
  expect(events.filter(({ type }) => !kinds.has(type))).toEqual([])
  const own = events.filter(({ type }) => type !== 'RAW')
  expect(own.flatMap((event) => Object.entries(event)).filter(([, value]) => value === null)).toEqual([])
  expect(events.map(({ type }) => type).lastIndexOf('RUN_FINISHED')).toBe(events.length - 1)
})

test('members that the protocol does not know change nothing', async () => {
  const server = await startAguiServer({ agencies: soloAgency() })
  server.provider.script([text('Hello.')])
  const unknown = { tomorrow: { is: 'new' } }
  const messages = [{ id: 'u1', role: 'user', content: [{ type: 'text', text: 'hi', ...unknown }], ...unknown }]
  const tools = [{ name: 'paint', description: 'Paints.', ...unknown }]

  const stream = await (await server.stream(STREAM, aguiBody({ messages, tools, ...unknown }))).all()

  expect(eventsOf(stream.frames).at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } })
  expect(server.provider.rejected).toEqual([])
})

test('a run that goes on reports the model calls that it has made itself', async () => {
  const env = {
    BUREAU_SECRET: 'a secret of this test that is long enough',
    BUREAU_APPROVALS_PATH: await temporaryFolder(),
  }
  const server = await startAguiServer({ agencies: soloAgency({ tools: [pay] }), env })
  server.provider.script([
    [toolCall('pay', { euros: 5 }), usage({ input: 100, output: 10 })],
    [text('Done.'), usage({ input: 200, output: 20 })],
  ])
  const agent = aguiAgent({ server })

  const first = await say(agent, 'Pay.')
  const [{ id: interruptId }] = first.events.at(-1).outcome.interrupts
  const second = await say(agent, null, {
    resume: [{ interruptId, status: 'resolved', payload: { approved: true } }],
  })

  const tokens = [first, second].map(({ events }) => events.at(-1).usage)
  expect(tokens).toMatchObject([[{ inputTokens: 100, totalTokens: 110 }], [{ inputTokens: 200, totalTokens: 220 }]])
})
