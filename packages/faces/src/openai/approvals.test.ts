import type { Message, RunEnded } from '@bureau/protocol'
import type { LogEvent } from '@bureau/runtime'
import { describe, expect, test } from 'vitest'
import { completionOf } from '../chat-completions/completion.ts'
import { chatEncoder } from '../chat-completions/encode.ts'
import { readResponsesRequest } from '../open-responses/read-request.ts'
import { responseDescriber } from '../open-responses/resource.ts'
import { ResponseEvents } from '../open-responses/response-events.ts'

const source = { agent: 'Solo', callerAgent: null, agent_run_id: 'agent_run_1' }
const approval = {
  call_id: 'call_1',
  tool: 'pay',
  arguments: '{"euros":5}',
  agent: 'Solo',
  agent_run_id: 'agent_run_1',
  expires_at: '2026-11-30T00:00:00.000Z',
  edit: false,
}
const call: Message = { type: 'function_call', call_id: 'call_1', name: 'pay', arguments: '{"euros":5}', id: 'fc_1' }
const ended: RunEnded = {
  type: 'run.ended',
  run_id: 'run_1',
  status: 'waiting',
  approvals: [approval],
  new_messages: [call],
  usage: null,
  usage_by_model: [],
  output: null,
  error: null,
}
const events: readonly LogEvent[] = [{ type: 'approval.requested', source, ...approval }, ended]
const of = { runId: 'run_1', approvalsUrl: '/v1/runs/run_1/approvals', agent: 'Solo', functions: new Set<string>() }

describe('a run that waits for a person', () => {
  const sentence = 'A person must approve the call pay({"euros":5}) first.'

  test('ends a chat completion with a sentence that says where the decision is made', () => {
    const encode = chatEncoder({ ...of, model: 'solo', includeUsage: false })

    const streamed = events.map((event, index) => encode(event, index)).join('')
    const plain = JSON.stringify(
      completionOf({ id: 'c', created: 0, model: 'solo' }, ended, { ...of, incomplete: undefined }),
    )

    for (const text of [streamed, plain]) {
      expect(text).toContain(JSON.stringify(sentence).slice(1, -1))
      expect(text).toContain('/v1/runs/run_1/approvals')
      expect(text).toContain('"finish_reason":"stop"')
    }
  })

  test('ends a response with the item of the call', () => {
    const request = readResponsesRequest({ input: 'x' })
    const describeResponse = responseDescriber({ id: 'resp_1', model: 'solo', isKept: false, createdAt: 0, request })
    const response = new ResponseEvents({ ...of, id: 'resp_1', describe: describeResponse, isStrict: false })

    for (const event of events) response.encode(event)

    expect(response.resource).toMatchObject({
      status: 'completed',
      output: [
        { type: 'message', content: [{ text: expect.stringContaining(sentence) }] },
        {
          type: 'bureau:approval_request',
          status: 'completed',
          name: 'pay',
          call_id: 'call_1',
          arguments: '{"euros":5}',
          approvals_url: '/v1/runs/run_1/approvals',
        },
      ],
    })
  })
})
