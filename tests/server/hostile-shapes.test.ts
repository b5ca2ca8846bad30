import { Agency, Agent } from '@bureau/framework'
import { createApp, loadConfig } from '@bureau/server'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { startFakeProvider, text } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'

const anything = fc.oneof(
  fc.constantFrom(null, true, 0, 7.5, '', 'user', 'input_text', '日本'),
  fc.constant([]),
  fc.constant({}),
  fc.constant([null]),
)
const TYPES =
  'message function_call function_call_output reasoning web_search_call file_search_call computer_call computer_call_output code_interpreter_call image_generation_call mcp_call mcp_approval_request mcp_approval_response mcp_list_tools shell_call shell_call_output apply_patch_call apply_patch_call_output custom_tool_call custom_tool_call_output local_shell_call tool_search_call tool_search_output item_reference compaction future'
const type = fc.constantFrom(null, ...TYPES.split(' '))
const part = fc.oneof(
  anything,
  fc.record(
    {
      type: fc.constantFrom('input_text', 'input_image', 'input_file', 'output_text', 'refusal', 'input_audio', null),
      text: anything,
      image_url: anything,
      file_id: anything,
      file_data: anything,
      filename: anything,
      annotations: anything,
      refusal: anything,
    },
    { requiredKeys: [] },
  ),
)
const content = fc.oneof(fc.string({ maxLength: 4 }), fc.array(part, { maxLength: 3 }), anything)
const item = fc.record(
  {
    type,
    role: fc.constantFrom('user', 'assistant', 'system', 'developer', 'zebra', null),
    content,
    id: fc.constantFrom('a', 'b', '', null),
    call_id: fc.constantFrom('c1', 'c2', null),
    name: anything,
    arguments: anything,
    output: content,
    status: anything,
    summary: fc.oneof(fc.array(part, { maxLength: 2 }), anything),
    action: anything,
    results: anything,
    tools: anything,
    approval_request_id: anything,
    callerAgent: fc.constantFrom(null, 'Nobody'),
    message_origin: fc.constantFrom('handoff_reminder', 'recipient_reminder'),
  },
  { requiredKeys: [] },
)
const body = fc.record({
  message: fc.oneof(fc.constant('hi'), fc.array(item, { minLength: 1, maxLength: 4 })),
  chat_history: fc.array(item, { maxLength: 5 }),
})

/** Sent at once: the demo model takes its time with every word. */
const bodies = fc.array(body, { minLength: 10, maxLength: 10 })

/** Reads what it is shown, so that every item has to become one of the agents SDK. */
const reader = { name: 'reads', execute: async () => ({ tripwireTriggered: false, outputInfo: null }) }

function agencies(model: string): Record<string, Agency> {
  const plain = new Agent({ name: 'Plain', instructions: 'I.', model })
  const guarded = new Agent({ name: 'Guarded', instructions: 'I.', model, inputGuardrails: [reader] })
  return { plain: new Agency({ entryPoint: plain }), guarded: new Agency({ entryPoint: guarded }) }
}

/** The type of the item of the message that an answer refuses: only one half of a call may be. */
function refusedItem({ message }: { message: unknown }, { detail: [{ loc }] }: { detail: [{ loc: unknown[] }] }) {
  expect(loc).toEqual(['body', 'message', expect.any(Number)])
  return String((message as { type?: unknown }[])[loc[2] as number]?.type)
}

// What items say is the provider's to judge: here every request is accepted.
describe.each([
  ['the Responses API', 'gpt-test', {}],
  ['Chat Completions', 'gpt-test', { OPENAI_API: 'chat_completions' }],
  ['another vendor', 'thirdparty/openai_compatible/llama', {}],
  ['the demo model', 'demo', {}],
])('items of any shape, with %s', (_, model, env) => {
  test.each(['plain', 'guarded'])('%s: an answer or a clear error, and a stream that ends as usual', async (agency) => {
    const provider = await startFakeProvider({ validate: false })
    closeAfterTest(() => provider.close())
    provider.respond(() => text('ok'))
    const access = { OPENAI_API_KEY: 'sk-server', OPENAI_BASE_URL: provider.baseUrl }
    const compatible = { OPENAI_COMPATIBLE_API_KEY: 'sk-other', OPENAI_COMPATIBLE_BASE_URL: provider.baseUrl }
    const options = { agencies: agencies(model), logLevel: 'silent' } as const
    const app = await createApp(options, loadConfig({ ...access, ...compatible, ...env }))
    closeAfterTest(() => app.close())

    await fc.assert(
      fc.asyncProperty(bodies, async (payloads) => {
        const url = `/${agency}/get_response_stream`
        const answers = await Promise.all(payloads.map((payload) => app.inject({ method: 'POST', url, payload })))

        for (const [index, answer] of answers.entries()) {
          if (answer.statusCode === 422) {
            expect(refusedItem(payloads[index]!, answer.json())).toMatch(/_call$|_output$|^mcp_approval_response$/)
            continue
          }
          expect(answer.statusCode).toBe(200)
          expect(answer.body).toMatch(/^event: meta\n/)
          expect(answer.body).toMatch(/\nevent: messages\ndata: .*\n\nevent: end\ndata: \[DONE\]\n\n$/)
          expect(answer.body).not.toMatch(/internal_error|run_failed|max_turns_exceeded|TypeError|sk-server/)
        }
      }),
      { numRuns: 6 },
    )
  })
})
