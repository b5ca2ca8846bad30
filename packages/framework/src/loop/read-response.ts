import type { AgentOutputItem, ModelRequest } from '#agents-core'
import { ModelError } from '../models/transport.ts'

/**
 * The output of a response, fit for the loop of the agents SDK.
 *
 * A response that says nothing and has nothing done is an empty answer: the loop would ask for another one, with the same
 * input, until all turns are used. A refusal is an answer in words: the loop would fail.
 *
 * @throws ModelError `upstream_invalid_response` an answer with a structure is empty.
 */
export function finalAnswer(
  output: readonly AgentOutputItem[],
  { outputType }: Pick<ModelRequest, 'outputType'>,
): AgentOutputItem[] {
  if (output.some((item) => item.type !== 'message' && !isFinished(item))) return [...output]
  if (outputType !== 'text' && !output.some(saysSomething)) {
    throw new ModelError('upstream_invalid_response', { detail: 'the structured answer is empty' })
  }
  if (!output.some(({ type }) => type === 'message')) return [...output, NOTHING_SAID]
  return outputType === 'text' ? output.map(withRefusalsAsText) : [...output]
}

export const NOTHING_SAID: AgentOutputItem = {
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: '' }],
}

/** True for what needs nothing from us: thoughts, calls that the provider has carried out, items of kinds to come. */
function isFinished(item: AgentOutputItem): boolean {
  if (item.type === 'hosted_tool_call') return item.name !== 'mcp_approval_request'
  return item.type === 'reasoning' || item.type === 'compaction' || item.type === 'unknown'
}

function saysSomething(item: AgentOutputItem): boolean {
  if (item.type !== 'message' || item.role !== 'assistant') return false
  return item.content.some((part) => part.type !== 'output_text' || part.text !== '')
}

function withRefusalsAsText(item: AgentOutputItem): AgentOutputItem {
  if (item.type !== 'message' || item.role !== 'assistant') return item
  const content = item.content.map((part) =>
    part.type === 'refusal' ? { type: 'output_text' as const, text: part.refusal } : part,
  )
  return { ...item, content }
}
