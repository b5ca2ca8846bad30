import { type AgentInputItem, protocol, withTrace } from '@openai/agents-core'
import { OpenAIResponsesModel } from '@openai/agents-openai'
import { describe, expect, test } from 'vitest'
import fc from 'fast-check'
import type { WireItem } from '@bureau/protocol'
import { toSdkItem, toSdkItems, toSdkOutputItem, toWireItem } from './wire-items.ts'

// What the SDK's request builder sends for these items, as JSON.
async function sentBySdk(items: readonly AgentInputItem[]): Promise<WireItem[]> {
  const { sent } = await requestThroughSdk(items, [])
  return JSON.parse(JSON.stringify(sent)) as WireItem[]
}

// One request through the SDK's own Responses model: what it sends, and what it makes of the answer.
async function requestThroughSdk(
  items: readonly AgentInputItem[],
  output: readonly WireItem[],
): Promise<{ sent: unknown; output: AgentInputItem[] }> {
  let sent: unknown
  const client = {
    responses: {
      create: async (request: { input: unknown }) => {
        sent = request.input
        return { id: 'resp_1', output, usage: { input_tokens: 0, output_tokens: 0, total_tokens: 0 } }
      },
    },
  }
  const model = new OpenAIResponsesModel(client as never, 'gpt-test')
  const rest = { modelSettings: {}, tools: [], handoffs: [], outputType: 'text', tracing: false }
  const response = await withTrace('test', () => model.getResponse({ input: [...items], ...rest } as never))
  return { sent, output: response.output }
}

// The provider's own defaults filled in, and what means nothing left out: null, absent and output-only members.
// oxlint-disable-next-line complexity -- a table of the provider's defaults
function meaning(item: WireItem): unknown {
  const { created_by: _createdBy, ...plain } = withoutNulls(item) as Record<string, unknown>
  const type = plain['type'] ?? (plain['role'] === undefined ? undefined : 'message')
  if (typeof plain['id'] !== 'string') delete plain['id']
  const content = plain['content']
  switch (type) {
    case 'message': {
      if (plain['role'] !== 'assistant')
        return { ...plain, type, content: Array.isArray(content) ? content.map(partMeaning) : content }
      const parts = typeof content === 'string' ? [{ type: 'output_text', text: content }] : content
      return { status: 'completed', ...plain, type, content: Array.isArray(parts) ? parts.map(partMeaning) : parts }
    }
    case 'function_call_output':
      return { status: 'completed', ...plain }
    case 'reasoning':
      return { summary: [], ...plain }
    case 'computer_call': {
      const { pending_safety_checks: checks, ...call } = plain
      const actions = call['actions'] as unknown[] | undefined
      return {
        ...(actions && { action: actions[0] }),
        ...call,
        ...((checks as unknown[] | undefined)?.length && { pending_safety_checks: checks }),
      }
    }
    case 'computer_call_output': {
      const { acknowledged_safety_checks: checks, ...output } = plain
      return { ...output, ...((checks as unknown[] | undefined)?.length && { acknowledged_safety_checks: checks }) }
    }
    case 'shell_call_output':
      return { ...plain, output: (plain['output'] as WireItem[]).map(({ created_by: _by, ...entry }) => entry) }
    default:
      return plain
  }
}

function partMeaning(part: unknown): unknown {
  if (typeof part !== 'object' || part === null) return part
  const fields = part as Record<string, unknown>
  if (fields['type'] === 'output_text') return { annotations: [], ...fields }
  return fields['type'] === 'input_image' ? { detail: 'auto', ...fields } : fields
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([, member]) => member !== null && member !== undefined)
  return Object.fromEntries(entries.map(([key, member]) => [key, withoutNulls(member)]))
}

const text = fc.string({ maxLength: 12 })
const id = fc.stringMatching(/^[a-z]{2,4}_[a-z0-9]{4}$/)
const status = fc.constantFrom('in_progress', 'completed', 'incomplete')
const anyStatus = fc.constantFrom(
  'in_progress',
  'completed',
  'incomplete',
  'failed',
  'searching',
  'generating',
  'interpreting',
)
const nullable = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(arbitrary, { nil: null })
const key = fc.stringMatching(/^[a-z]{1,6}(_[a-z]{1,4})?$/)
const json = fc.letrec((tie) => ({
  value: fc.oneof({ maxDepth: 2 }, text, fc.integer(), fc.boolean(), fc.constant(null), tie('list'), tie('record')),
  list: fc.array(tie('value'), { maxLength: 2 }),
  record: fc.dictionary(key, tie('value'), { maxKeys: 2, noNullPrototype: true }),
}))
const extras = fc.dictionary(
  key.map((name) => `x_${name}`),
  json.value,
  { maxKeys: 1, noNullPrototype: true },
)

type Shape = Record<string, fc.Arbitrary<unknown>>

// Required members, then optional ones, then sometimes one that nobody knows yet.
function item(required: Shape, optional: Shape = {}): fc.Arbitrary<WireItem> {
  const known = fc.record({ ...required, ...optional }, { requiredKeys: Object.keys(required) })
  return fc
    .tuple(known, fc.oneof({ weight: 3, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: extras }))
    .map(([fields, more]) => ({ ...more, ...fields }))
}

const is = (value: string): fc.Arbitrary<string> => fc.constant(value)
const caller = nullable(
  fc.oneof(
    fc.constant({ type: 'direct' }),
    fc.record({ type: is('program'), caller_id: id }),
    fc.record({ type: is('other') }),
  ),
)
const breakpoint = fc.constantFrom({ mode: 'explicit' }, { mode: 'explicit', ttl: '30m' })

const inputText = item({ type: is('input_text'), text }, { prompt_cache_breakpoint: breakpoint })
const inputImage = fc.oneof(
  item(
    { type: is('input_image'), image_url: text },
    { detail: nullable(fc.constantFrom('auto', 'low', 'high')), file_id: fc.constant(null) },
  ),
  item({ type: is('input_image'), file_id: id }, { detail: text, image_url: nullable(text) }),
)
const inputFile = fc.oneof(
  item({ type: is('input_file'), file_id: id }, { filename: nullable(text) }),
  item({ type: is('input_file'), file_url: fc.webUrl() }, { filename: text, file_id: fc.constant(null) }),
  item({ type: is('input_file'), file_data: fc.base64String({ minLength: 4 }) }, { filename: text, detail: text }),
  item({ type: is('input_file'), file_data: text.map((data) => `data:text/plain,${data}`), filename: text }),
  item({ type: is('input_file'), file_data: text }),
)
const inputAudio = item({ type: is('input_audio'), input_audio: fc.record({ data: text, format: is('mp3') }) })
const inputParts = fc.array(fc.oneof(inputText, inputImage, inputFile, inputAudio), { maxLength: 3 })
const outputText = item(
  { type: is('output_text'), text },
  { annotations: fc.array(json.record, { maxLength: 2 }), logprobs: fc.array(json.record, { maxLength: 2 }) },
)
const refusal = item({ type: is('refusal'), refusal: text })
const identity: Shape = { id: nullable(id), status: nullable(status) }

const ITEMS: Record<string, fc.Arbitrary<WireItem>> = {
  'user, system and developer messages': item(
    { role: fc.constantFrom('user', 'system', 'developer'), content: fc.oneof(text, inputParts) },
    { type: is('message'), ...identity },
  ),
  'assistant messages': item(
    {
      role: is('assistant'),
      content: fc.oneof(text, fc.array(fc.oneof(outputText, refusal, inputText), { maxLength: 3 })),
    },
    { type: is('message'), ...identity, phase: fc.constantFrom('commentary', 'final_answer', null, 'other') },
  ),
  'messages of unheard-of roles': item({ role: text, content: json.value }, { type: is('message'), id }),
  'function calls': item(
    { type: is('function_call'), call_id: id, name: text, arguments: text },
    { id, status: nullable(anyStatus), namespace: nullable(text), caller, async: fc.boolean() },
  ),
  'function call outputs': item(
    { type: is('function_call_output'), call_id: nullable(id), output: fc.oneof(text, inputParts, json.value) },
    { ...identity, name: nullable(text), namespace: nullable(text), caller },
  ),
  reasoning: item(
    { type: is('reasoning'), id, summary: fc.array(item({ type: is('summary_text'), text }), { maxLength: 2 }) },
    {
      content: nullable(fc.array(fc.record({ type: is('reasoning_text'), text }), { maxLength: 2 })),
      encrypted_content: nullable(text),
      status: nullable(status),
    },
  ),
  'computer calls': item(
    { type: is('computer_call'), id, call_id: id, status: anyStatus },
    {
      action: fc.oneof(
        fc.constant({ type: 'screenshot' }),
        fc.record({ type: is('click'), x: fc.nat(), y: fc.nat(), button: is('left') }),
      ),
      actions: fc.array(fc.record({ type: is('type'), text }), { maxLength: 2 }),
      pending_safety_checks: fc.array(fc.record({ id, code: nullable(text) }), { maxLength: 2 }),
    },
  ),
  'computer call outputs': item(
    {
      type: is('computer_call_output'),
      call_id: id,
      output: item({ type: is('computer_screenshot') }, { image_url: text, file_id: id }),
    },
    { ...identity, acknowledged_safety_checks: nullable(fc.array(fc.record({ id }), { maxLength: 2 })) },
  ),
  'shell calls': item(
    {
      type: is('shell_call'),
      call_id: id,
      action: item(
        { commands: fc.array(text, { maxLength: 2 }) },
        { timeout_ms: nullable(fc.nat()), max_output_length: nullable(fc.nat()) },
      ),
    },
    {
      ...identity,
      caller,
      environment: nullable(fc.record({ type: is('container_reference'), container_id: id })),
      created_by: id,
    },
  ),
  'shell call outputs': item(
    {
      type: is('shell_call_output'),
      call_id: id,
      output: fc.array(
        item(
          {
            stdout: text,
            stderr: text,
            outcome: fc.oneof(
              fc.constant({ type: 'timeout' }),
              fc.record({ type: is('exit'), exit_code: nullable(fc.integer({ min: 0, max: 255 })) }),
            ),
          },
          { created_by: id },
        ),
        { maxLength: 2 },
      ),
    },
    { ...identity, max_output_length: nullable(fc.nat()), caller, created_by: id },
  ),
  'patch calls': item(
    {
      type: is('apply_patch_call'),
      call_id: id,
      status: fc.constantFrom('in_progress', 'completed'),
      operation: fc.oneof(
        item({ type: fc.constantFrom('create_file', 'update_file'), path: text, diff: text }),
        item({ type: is('update_file'), path: text, diff: text, move_to: text }),
        item({ type: fc.constantFrom('delete_file', 'other'), path: text }),
      ),
    },
    { id: nullable(id), caller, created_by: id },
  ),
  'patch call outputs': item(
    { type: is('apply_patch_call_output'), call_id: id, status: fc.constantFrom('completed', 'failed', 'other') },
    { id: nullable(id), output: nullable(text), caller },
  ),
  'custom tool calls': item(
    { type: is('custom_tool_call'), call_id: id, name: text, input: text },
    { id, namespace: text, caller },
  ),
  'custom tool call outputs': item(
    { type: is('custom_tool_call_output'), call_id: id, output: fc.oneof(text, inputParts) },
    { id, caller },
  ),
  'local shell calls': item({
    type: is('local_shell_call'),
    id,
    call_id: id,
    status,
    action: fc.record({ type: is('exec'), command: fc.array(text) }),
  }),
  'local shell call outputs': item({ type: is('local_shell_call_output'), id, output: text }, { status }),
  'web searches': item(
    { type: is('web_search_call'), id, status: anyStatus },
    {
      action: fc.oneof(item({ type: is('search'), query: text }, { sources: fc.array(json.record) }), json.value),
      caller,
    },
  ),
  'file searches': item(
    { type: is('file_search_call'), id, status: anyStatus, queries: fc.array(text, { maxLength: 2 }) },
    { results: nullable(fc.array(json.record, { maxLength: 2 })) },
  ),
  'code interpreter calls': item({
    type: is('code_interpreter_call'),
    id,
    status: anyStatus,
    container_id: id,
    code: nullable(text),
    outputs: nullable(fc.array(json.record)),
  }),
  'image generations': item(
    { type: is('image_generation_call'), id, status: anyStatus, result: nullable(text) },
    { revised_prompt: nullable(text), size: text },
  ),
  'MCP tool lists': item(
    { type: is('mcp_list_tools'), id, server_label: text, tools: fc.array(json.record) },
    { error: nullable(text) },
  ),
  'MCP approval requests': item({
    type: is('mcp_approval_request'),
    id,
    name: text,
    arguments: text,
    server_label: text,
  }),
  'MCP approval responses': item(
    { type: is('mcp_approval_response'), approval_request_id: id, approve: fc.boolean() },
    { id: nullable(id), reason: nullable(text) },
  ),
  'MCP calls': item(
    { type: is('mcp_call'), id, name: text, arguments: text, server_label: text },
    { output: nullable(text), error: nullable(json.record), status: anyStatus, approval_request_id: nullable(id) },
  ),
  'tool searches': item(
    { type: is('tool_search_call'), arguments: json.value },
    {
      id: nullable(id),
      call_id: nullable(id),
      execution: fc.constantFrom('server', 'client'),
      status: nullable(anyStatus),
    },
  ),
  'tool search outputs': item(
    {
      type: is('tool_search_output'),
      tools: fc.array(
        fc.oneof(
          item({ type: is('function'), name: text, parameters: json.record }, { defer_loading: fc.boolean() }),
          fc.record({ type: is('tool_reference'), function_name: text }),
          fc.record({
            type: is('namespace'),
            name: text,
            tools: fc.array(fc.record({ type: is('function'), name: text })),
          }),
        ),
        { maxLength: 2 },
      ),
    },
    { id, call_id: nullable(id), execution: fc.constantFrom('server', 'client'), status },
  ),
  programs: item({ type: is('program'), id, call_id: id, code: text, fingerprint: text }),
  'program outputs': item({ type: is('program_output'), id, call_id: id, result: text, status: anyStatus }),
  compactions: item({ type: is('compaction'), encrypted_content: text }, { id: nullable(id), created_by: id }),
  'item references': item({ id }, { type: fc.constantFrom('item_reference', null) }),
  'items of the future': item(
    { type: text.map((name) => `future_${name}`) },
    { id, call_id: id, role: text, payload: json.record },
  ),
  'records of any shape': fc.dictionary(
    fc.oneof(key, is('type'), is('role'), is('content'), is('call_id')),
    json.value,
    { noNullPrototype: true },
  ),
}

const cases = Object.entries(ITEMS).map(([name, arbitrary]) => ({ name, arbitrary }))

describe('a wire item', () => {
  test.each(cases)('comes back from the SDK form unchanged: $name', ({ arbitrary }) => {
    fc.assert(
      fc.property(arbitrary, (wire) => {
        expect(toWireItem(toSdkItem(wire))).toStrictEqual(wire)
        expect(toWireItem(toSdkOutputItem(wire))).toStrictEqual(wire)
      }),
    )
  })

  test.each(cases)('satisfies the schemas of the SDK: $name', ({ arbitrary }) => {
    fc.assert(
      fc.property(arbitrary, (wire) => {
        expect(protocol.ModelItem.safeParse(toSdkItem(wire)).error).toBeUndefined()
        expect(protocol.ModelItem.safeParse(toSdkOutputItem(wire)).error).toBeUndefined()
      }),
    )
  })

  test.each(cases)('means the same when the SDK sends it: $name', async ({ arbitrary }) => {
    await fc.assert(
      fc.asyncProperty(arbitrary, async (wire) => {
        const [sent] = await sentBySdk([toSdkItem(wire)])
        expect(meaning(sent!)).toStrictEqual(meaning(wire))
      }),
    )
  })
})

// As a provider really sends them.
const ANSWER: WireItem[] = [
  { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Hm.' }], encrypted_content: 'zzz' },
  {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    status: 'completed',
    phase: 'final_answer',
    content: [
      {
        type: 'output_text',
        text: 'Hi',
        annotations: [{ type: 'file_citation', file_id: 'file-1', index: 2 }],
        logprobs: [],
      },
      { type: 'refusal', refusal: 'No.' },
    ],
  },
  { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'add', arguments: '{}', status: 'completed' },
  {
    type: 'function_call',
    id: 'fc_2',
    call_id: 'call_2',
    name: 'add',
    namespace: 'sums',
    arguments: '{}',
    caller: { type: 'program', caller_id: 'p' },
  },
  {
    type: 'file_search_call',
    id: 'fs_1',
    status: 'completed',
    queries: ['q'],
    results: [{ file_id: 'file-1', text: 't' }],
  },
  { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'q' } },
  { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: 'aGk=', revised_prompt: 'p' },
  {
    type: 'code_interpreter_call',
    id: 'ci_1',
    status: 'completed',
    code: '1',
    container_id: 'c',
    outputs: [{ type: 'logs', logs: '1' }],
  },
  {
    type: 'mcp_list_tools',
    id: 'ml_1',
    server_label: 's',
    tools: [{ name: 't', input_schema: { additionalProperties: false } }],
  },
  { type: 'mcp_approval_request', id: 'mr_1', server_label: 's', name: 't', arguments: '{}' },
  { type: 'mcp_call', id: 'mc_1', server_label: 's', name: 't', arguments: '{}', output: 'done', error: null },
  {
    type: 'computer_call',
    id: 'cu_1',
    call_id: 'call_3',
    status: 'completed',
    actions: [{ type: 'screenshot' }],
    pending_safety_checks: [],
  },
  {
    type: 'shell_call',
    id: 'sh_1',
    call_id: 'call_4',
    status: 'completed',
    action: { commands: ['ls'], timeout_ms: 5, max_output_length: 9 },
    environment: null,
  },
  {
    type: 'apply_patch_call',
    id: 'ap_1',
    call_id: 'call_5',
    status: 'completed',
    operation: { type: 'update_file', path: 'a', diff: 'd', move_to: 'b' },
  },
  {
    type: 'tool_search_call',
    id: 'ts_1',
    call_id: 'call_6',
    execution: 'client',
    status: 'completed',
    arguments: { query: 'q' },
  },
  { type: 'program', id: 'pr_1', call_id: 'call_7', code: '1', fingerprint: 'f' },
  { type: 'program_output', id: 'po_1', call_id: 'call_7', result: '1', status: 'completed' },
  { type: 'compaction', id: 'cm_1', encrypted_content: 'zzz' },
  { type: 'custom_tool_call', id: 'ct_1', call_id: 'call_8', name: 'sql', input: 'select 1' },
]

describe('an item of an answer', () => {
  test.each(ANSWER.map((wire) => ({ wire, type: wire.type })))(
    'has the fields on which the SDK acts: $type',
    async ({ wire }) => {
      const { output } = await requestThroughSdk([], [wire])

      const { providerData: _ours, ...ours } = toSdkOutputItem(wire)
      const { providerData: _sdk, ...sdk } = output[0]!
      expect(ours).toMatchObject(withoutPartData(sdk))
    },
  )

  test.each(ANSWER.map((wire) => ({ wire, type: wire.type })))(
    'survives the SDK reading it itself: $type',
    async ({ wire }) => {
      const { output } = await requestThroughSdk([], [wire])

      expect(withoutNulls(toWireItem(output[0]!))).toStrictEqual(withoutNulls(wire))
    },
  )

  test('is a call even with a status that the SDK does not know', () => {
    const call = { type: 'function_call', call_id: 'call_1', name: 'add', arguments: '{}', status: 'failed' }

    expect(toSdkOutputItem(call)).toMatchObject({
      type: 'function_call',
      callId: 'call_1',
      name: 'add',
      arguments: '{}',
    })
    expect(toWireItem(toSdkOutputItem(call))).toStrictEqual(call)
  })
})

// What the SDK keeps of a part in `providerData`, and members that it sets to nothing.
function withoutPartData(sdk: object): object {
  const copy = JSON.parse(JSON.stringify(sdk)) as {
    content?: Record<string, unknown>[]
    caller?: unknown
    action?: unknown
    type: string
  }
  for (const part of Array.isArray(copy.content) ? copy.content : []) delete part['providerData']
  if (copy.type === 'computer_call') delete copy.action
  return copy
}

describe('an item that the SDK made', () => {
  const result = { type: 'function_call_result', name: 'add', callId: 'call_1', status: 'completed' } as const
  const output = { type: 'function_call_output', call_id: 'call_1' }

  test.each([
    { name: 'text', made: { ...result, output: { type: 'text', text: '3' } }, wire: { ...output, output: '3' } },
    { name: 'a plain string', made: { ...result, output: '3' }, wire: { ...output, output: '3' } },
    {
      name: 'a list of parts',
      made: {
        ...result,
        output: [
          { type: 'input_text', text: 'a' },
          { type: 'input_image', image: 'https://example.com/a.png', detail: 'low' },
          { type: 'input_image', image: { id: 'file-1' } },
          { type: 'input_file', file: { url: 'https://example.com/a.pdf' }, filename: 'a.pdf' },
        ],
      },
      wire: {
        ...output,
        output: [
          { type: 'input_text', text: 'a' },
          { type: 'input_image', image_url: 'https://example.com/a.png', detail: 'low' },
          { type: 'input_image', file_id: 'file-1' },
          { type: 'input_file', file_url: 'https://example.com/a.pdf', filename: 'a.pdf' },
        ],
      },
    },
    {
      name: 'bytes of a picture',
      made: {
        ...result,
        output: { type: 'image', image: { data: new Uint8Array([104, 105]), mediaType: 'image/gif' } },
      },
      wire: { ...output, output: [{ type: 'input_image', image_url: 'data:image/gif;base64,aGk=' }] },
    },
    {
      name: 'a file with its name',
      made: { ...result, output: { type: 'file', file: { data: 'aGk=', mediaType: 'text/csv', filename: 'a.csv' } } },
      wire: { ...output, output: [{ type: 'input_file', file_data: 'data:text/csv;base64,aGk=', filename: 'a.csv' }] },
    },
  ])('has the output on the wire: $name', ({ made, wire }) => {
    expect(toWireItem(made as AgentInputItem)).toStrictEqual(wire)
  })

  test('carries its approval of a hosted tool', () => {
    const providerData = { approve: true, approval_request_id: 'mr_1', reason: undefined }
    const made: AgentInputItem = { type: 'hosted_tool_call', name: 'mcp_approval_response', providerData }

    expect(toWireItem(made)).toStrictEqual({
      type: 'mcp_approval_response',
      approve: true,
      approval_request_id: 'mr_1',
    })
  })

  test('has no id when the SDK took it away', () => {
    const made = {
      type: 'reasoning',
      content: [],
      providerData: { id: 'rs_1', type: 'reasoning', encryptedContent: 'zzz' },
    }

    expect(toWireItem(made as AgentInputItem)).toStrictEqual({
      type: 'reasoning',
      summary: [],
      encrypted_content: 'zzz',
    })
  })

  test('never makes the conversion fail, whatever it holds', () => {
    const kinds = fc.constantFrom(
      'message',
      'function_call_result',
      'hosted_tool_call',
      'reasoning',
      'shell_call_output',
      'unknown',
    )
    const anything = fc.tuple(
      kinds,
      fc.dictionary(fc.constantFrom('content', 'output', 'providerData', 'name', 'action'), fc.anything()),
    )
    fc.assert(
      fc.property(anything, ([type, fields]) => {
        expect(() => toWireItem({ ...fields, type } as unknown as AgentInputItem)).not.toThrow()
      }),
    )
  })
})

test('a list keeps its order', () => {
  expect(toSdkItems(ANSWER).map(toWireItem)).toStrictEqual(ANSWER)
})
