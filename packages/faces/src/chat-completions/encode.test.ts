import type { LogEvent } from '@bureau/runtime'
import { expect, test } from 'vitest'
import { chatEncoder } from './encode.ts'

const source = { agent: 'Solo', callerAgent: null, agent_run_id: 'agent_run_1' }
const delta = (text: string): LogEvent => ({
  type: 'model.event',
  source,
  kind: 'response.output_text.delta',
  json: JSON.stringify({ type: 'response.output_text.delta', delta: text }),
  item_id: 'msg_1',
})

const encoded = (events: readonly LogEvent[]): string => {
  const stream = { runId: 'run_1', approvalsUrl: undefined, model: 'solo', includeUsage: false, agent: 'Solo' }
  const encode = chatEncoder({ ...stream, functions: new Set() })
  return events.map((event, index) => encode(event, index)).join('')
}

test('a stream breaks off when what it has shown is withdrawn', () => {
  const text = encoded([delta('Half'), { type: 'run.resumed', attempt: 2, withdrawn: ['msg_1'] }, delta('All of it.')])

  expect(text).toContain('"content":"Half"')
  expect(text).toContain('"code":"runner_lost"')
  expect(text).toMatch(/data: \[DONE\]\n\n$/)
  expect(text).not.toContain('All of it.')
})

test('a stream goes on when nothing that it has shown is withdrawn', () => {
  const text = encoded([{ type: 'run.resumed', attempt: 2, withdrawn: ['msg_1'] }, delta('All of it.')])

  expect(text).toContain('All of it.')
})
