import { Agency, Agent } from '@bureau/framework'
import * as sdk from '@openai/agents'
import * as sdk18 from 'openai-agents-0.18'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text, toolCall } from '../support/fake-provider.ts'
import { startTestServer } from '../support/test-server.ts'

type Items = readonly { readonly type?: string; readonly callId?: string }[]

const passed = { tripwireTriggered: false, outputInfo: null }

/** The types of 0.18 are those of the other version by another name. */
const versions = [
  ['0.20', sdk],
  ['0.18', sdk18 as unknown as typeof sdk],
] as const

describe.each(versions)(
  'agents, tools and handoffs of @openai/agents %s',
  (_version, { Agent: SdkAgent, handoff, tool, ...guardrails }) => {
    const look = tool({
      name: 'look',
      description: 'Looks.',
      parameters: z.object({ at: z.string() }),
      execute: ({ at }) => `saw ${at}`,
    })

    test('work together with those of Bureau, and an agent that several handoffs lead to is one agent', async () => {
      const theirs = new SdkAgent({ name: 'Theirs', instructions: 'Help.', model: 'gpt-test', tools: [look] })
      const ours = new Agent({ name: 'Ours', instructions: 'Hand over.', model: 'gpt-test', handoffs: [theirs] })
      const agency = new Agency({ entryPoint: [ours, Agent.from(theirs)] })
      const server = await startTestServer({ agencies: { shop: agency } })
      server.provider.script([toolCall('transfer_to_Theirs', {}), toolCall('look', { at: 'x' }), text('Done.')])

      const { body } = await server.post('/shop/get_response', { message: 'go' })

      expect(body.response).toBe('Done.')
      expect(server.provider.modelRequests.at(-1)!.toolOutputs.map(({ output }) => output)).toEqual([
        '{"assistant":"Theirs"}',
        'saw x',
      ])
      expect([...agency.agents.keys()]).toEqual(['Ours', 'Theirs'])
    })

    test('get the items of that SDK in their callbacks', async () => {
      const seen: Record<string, unknown> = {}
      const typesOf = (items: unknown): unknown[] => (items as Items).map(({ type }) => type)
      const second = new SdkAgent({ name: 'Second', instructions: 'Answer.', model: 'gpt-test' })
      const first = new SdkAgent({
        name: 'First',
        instructions: 'Look, then hand over.',
        model: 'gpt-test',
        tools: [look],
        inputGuardrails: [
          {
            name: 'input',
            execute: async ({ input }) => {
              seen['input'] = input
              return passed
            },
          },
        ],
        handoffs: [
          handoff(second, {
            inputFilter: (data) => {
              seen['before'] = data.preHandoffItems.map(({ type, rawItem }) => [type, rawItem?.type])
              seen['new'] = typesOf(data.newItems.map(({ rawItem }) => rawItem))
              return { ...data, preHandoffItems: [] }
            },
          }),
        ],
      })
      const server = await startTestServer({ agencies: { shop: new Agency({ entryPoint: Agent.from(first) }) } })
      server.provider.script([toolCall('look', { at: 'x' }), toolCall('transfer_to_Second', {}), text('Done.')])

      const { body } = await server.post('/shop/get_response', { message: 'go' })

      expect(body.response).toBe('Done.')
      expect(seen).toEqual({
        input: [{ role: 'user', content: 'go' }],
        before: [
          ['tool_call_item', 'function_call'],
          ['tool_call_output_item', 'function_call_result'],
        ],
        new: ['function_call', 'function_call_result'],
      })
      const { items } = server.provider.modelRequests.at(-1)!
      expect(items.map(({ type, role }) => type ?? role)).toEqual([
        'user',
        'function_call',
        'function_call_output',
        'message',
      ])
    })

    test('an output guardrail and the use of tools get that SDK’s items too', async () => {
      const seen: Record<string, unknown> = {}
      const agent = new SdkAgent({
        name: 'Solo',
        instructions: 'Look.',
        model: 'gpt-test',
        tools: [look],
        toolUseBehavior: (_context, results) => {
          seen['results'] = results.map((each) => [each.type, each.tool.name, each.runItem?.rawItem?.type])
          return { isFinalOutput: true, isInterrupted: undefined, finalOutput: 'It was x.' }
        },
        outputGuardrails: [
          {
            name: 'output',
            execute: async ({ agentOutput, details }) => {
              seen['answer'] = [agentOutput, details?.output?.map(({ type }) => type)]
              return passed
            },
          },
        ],
      })
      const server = await startTestServer({ agencies: { shop: new Agency({ entryPoint: Agent.from(agent) }) } })
      server.provider.script([toolCall('look', { at: 'x' })])

      const { body } = await server.post('/shop/get_response', { message: 'go' })

      expect(body.response).toBe('It was x.')
      expect(seen).toEqual({
        results: [['function_output', 'look', 'function_call_result']],
        answer: ['It was x.', ['function_call', 'function_call_result']],
      })
    })

    test('guardrails of a tool keep a call from being made, or its output from the model, or end the run', async () => {
      const { defineToolInputGuardrail, defineToolOutputGuardrail } = guardrails
      const { allow, rejectContent, throwException } = guardrails.ToolGuardrailFunctionOutputFactory
      const made: string[] = []
      const fetch = tool({
        name: 'fetch',
        description: 'Fetches.',
        parameters: z.object({ at: z.string() }),
        inputGuardrails: [
          defineToolInputGuardrail({ name: 'passes', run: async () => allow() }),
          defineToolInputGuardrail({
            name: 'input',
            run: async ({ toolCall: { arguments: text } }) =>
              text.includes('secret') ? rejectContent('Not there.') : allow(),
          }),
        ],
        outputGuardrails: [
          defineToolOutputGuardrail({
            name: 'output',
            run: async ({ output }) => {
              if (output === 'got poison') return throwException()
              return output === 'got keys' ? rejectContent('Withheld.') : allow()
            },
          }),
        ],
        execute: ({ at }) => {
          made.push(at)
          return `got ${at}`
        },
      })
      const agent = new SdkAgent({ name: 'Solo', instructions: 'Fetch.', model: 'gpt-test', tools: [fetch] })
      const server = await startTestServer({ agencies: { shop: new Agency({ entryPoint: Agent.from(agent) }) } })
      const calls = ['secret', 'keys', 'news'].map((at, place) =>
        toolCall('fetch', { at }, { callId: `call_${place}` }),
      )
      server.provider.script([calls, text('Done.'), toolCall('fetch', { at: 'poison' }), text('Never.')])

      const { body } = await server.post('/shop/get_response', { message: 'go' })
      const stream = await (await server.stream('/shop/get_response_stream', { message: 'go' })).all()

      const outputs = server.provider.modelRequests[1]!.toolOutputs.map(({ output }) => output)
      expect(outputs).toEqual(['Not there.', 'Withheld.', 'got news'])
      expect(body.response).toBe('Done.')
      expect(stream.events.at(-1)).toMatchObject({ code: 'guardrail_tripped' })
      expect(server.provider.modelRequests).toHaveLength(3)
      expect(made).toEqual(['keys', 'news', 'poison'])
    })

    test('settings that the SDK has only by default give way to those of the model in use', async () => {
      const bare = Agent.from(new SdkAgent({ name: 'Bare', instructions: 'x', model: 'gpt-5-mini' }))
      const set = Agent.from(new SdkAgent({ name: 'Set', instructions: 'x', modelSettings: { temperature: 0.5 } }))

      expect([bare.modelSettings, set.modelSettings]).toEqual([undefined, { temperature: 0.5 }])
    })
  },
)
