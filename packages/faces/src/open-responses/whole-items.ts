import type { ApprovalRequest, RunEnded, WireItem } from '@bureau/protocol'
import { approvalText } from '../openai/approval-text.ts'
import { textOf } from '../openai/model-event.ts'

/** An event of an item, without its number. */
type ItemEvent = { readonly type: string; readonly fields: object }

/** A message of an agent with one text, in the form in which responses have it. */
export function messageItem(text: string, item: WireItem = {}): WireItem {
  const part = { type: 'output_text', text, annotations: [], logprobs: [] }
  return { ...item, type: 'message', role: 'assistant', content: [part] }
}

/** An item as the response has it that no model has streamed: a guardrail's guidance, or what a server sends without events. */
export function asOutput(item: WireItem): WireItem {
  return item.type === 'message' ? messageItem(textOf(item), item) : item
}

/** What an item is when it begins. */
export function asBegun(item: WireItem): WireItem {
  return { ...item, status: 'in_progress', ...(item.type === 'message' && { content: [] }) }
}

/** The events between the beginning and the end of such an item. */
export function eventsBetween(item: WireItem, at: object): ItemEvent[] {
  if (item.type === 'message') return messageEvents(item, { ...at, content_index: 0 })
  if (item.type !== 'function_call') return []
  const { name, arguments: args } = item
  return [
    { type: 'response.function_call_arguments.delta', fields: { ...at, delta: args } },
    { type: 'response.function_call_arguments.done', fields: { ...at, name, arguments: args } },
  ]
}

function messageEvents({ content }: WireItem, at: object): ItemEvent[] {
  const [part] = content as readonly { readonly text: string }[]
  const { text } = part!
  return [
    { type: 'response.content_part.added', fields: { ...at, part: { ...part, text: '' } } },
    { type: 'response.output_text.delta', fields: { ...at, delta: text, logprobs: [] } },
    { type: 'response.output_text.done', fields: { ...at, text, logprobs: [] } },
    { type: 'response.content_part.done', fields: { ...at, part } },
  ]
}

/** A call that waits until a person has decided about it: the response ends with it. */
export function approvalItem(
  { call_id, tool, arguments: args, agent, expires_at, edit, token }: ApprovalRequest,
  url: string | undefined,
): WireItem {
  const item = { type: 'bureau:approval_request', call_id, name: tool, arguments: args, agent, expires_at, edit }
  return { ...item, approvals_url: url ?? null, ...(token !== undefined && { token }) }
}

const APPROVAL_MESSAGE = 'msg_approval_'

/** The same in words. */
export function approvalMessage(event: ApprovalRequest, url: string | undefined): WireItem {
  return messageItem(approvalText(event, url), { id: APPROVAL_MESSAGE + event.call_id })
}

/** No model has said it: it is nothing to go on from. */
export const isApprovalMessage = ({ type, id }: WireItem): boolean =>
  type === 'message' && typeof id === 'string' && id.startsWith(APPROVAL_MESSAGE)

/** What a run has produced in the end, for a reader who could not be given the events that led there. */
export function outputOf({ new_messages: items, caller_calls: calls = [] }: RunEnded): WireItem[] {
  return items.filter(
    ({ type, role, callerAgent, call_id: id }) =>
      callerAgent == null &&
      (role === 'assistant' || type === 'reasoning' || (type === 'function_call' && calls.includes(id ?? ''))),
  ) as WireItem[]
}
