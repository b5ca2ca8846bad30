import type { Message, RunEnded, Usage } from '@bureau/protocol'
import { approvalText } from '../openai/approval-text.ts'
import { reasoningOf, refusalOf, textOf } from '../openai/model-event.ts'

type FinishReason = 'stop' | 'tool_calls' | 'length' | 'content_filter'

/** What all pieces of an answer repeat. */
type CompletionHead = {
  readonly id: string
  /** Seconds since the epoch. */
  readonly created: number
  /** As the caller has named it. */
  readonly model: string
}

export const completionId = (runId: string): string => `chatcmpl-${runId.replaceAll('-', '')}`

type Ending = {
  /** Why the last model response broke off, if it did. */
  readonly incomplete: string | undefined
  readonly approvalsUrl: string | undefined
}

/** A finished run as a `chat.completion`. Several messages of the run are one message, with a blank line between. */
export function completionOf(head: CompletionHead, ended: RunEnded, { incomplete, approvalsUrl }: Ending): object {
  const items = ended.new_messages.filter(({ callerAgent }) => callerAgent == null)
  const answers = items.filter(isAnswer)
  const waiting = (ended.approvals ?? []).map((approval) => approvalText(approval, approvalsUrl))
  const text = joined([...answers.map(textOf), ...waiting])
  const refusal = joined(answers.map(refusalOf))
  const reasoning = joined(items.filter(({ type }) => type === 'reasoning').map(reasoningOf))
  const calls = callerCalls(ended)
  const message = {
    role: 'assistant',
    content: text === '' && (calls.length > 0 || refusal !== '') ? null : text,
    refusal: refusal === '' ? null : refusal,
    ...(reasoning !== '' && { reasoning_content: reasoning, reasoning }),
    ...(calls.length > 0 && { tool_calls: calls.map(toolCall) }),
  }
  const choice = { index: 0, message, logprobs: null, finish_reason: finishReason(ended, incomplete) }
  return {
    id: head.id,
    object: 'chat.completion',
    created: head.created,
    model: head.model,
    choices: [choice],
    ...(ended.usage && { usage: chatUsage(ended.usage) }),
  }
}

/** Whether a run ended in a way that has a `finish_reason`: an answer that was cut off has one, too. */
export function isAnswered({ status, error }: RunEnded): boolean {
  return (
    status === 'completed' ||
    status === 'waiting' ||
    error?.code === 'response_incomplete' ||
    error?.code === 'content_refused'
  )
}

/** @param incomplete - Why the last model response broke off, if it did. */
export function finishReason({ caller_calls: calls, error }: RunEnded, incomplete: string | undefined): FinishReason {
  if (calls?.length) return 'tool_calls'
  if (error?.code === 'content_refused' || incomplete === 'content_filter') return 'content_filter'
  return incomplete === undefined ? 'stop' : 'length'
}

/** The usage of a run, all its model requests together, in the words of this API. `cost` is in US dollars. */
export function chatUsage(usage: Usage): object {
  return {
    prompt_tokens: usage.input_tokens,
    completion_tokens: usage.output_tokens,
    total_tokens: usage.total_tokens,
    prompt_tokens_details: { cached_tokens: usage.cached_tokens },
    completion_tokens_details: { reasoning_tokens: usage.reasoning_tokens ?? 0 },
    cost: usage.total_cost,
  }
}

function callerCalls({ new_messages: messages, caller_calls: ids = [] }: RunEnded): Message[] {
  return messages.filter(({ type, call_id: id }) => type === 'function_call' && id !== undefined && ids.includes(id))
}

function toolCall({ call_id: id, name, arguments: args }: Message): object {
  return { id, type: 'function', function: { name, arguments: args } }
}

function isAnswer({ type, role }: Message): boolean {
  return type === 'message' && role === 'assistant'
}

const joined = (texts: readonly string[]): string => texts.filter((text) => text !== '').join('\n\n')
