import type { Message, WireItem } from '@bureau/protocol'
import { idIsOptional, withClientIds, withoutId, withRealId, withUniqueIds } from './ids.ts'
import { withoutOrphans } from './orphans.ts'

export { preservationItem } from './preservation.ts'
export { stamp, timestampMicros } from './stamp.ts'

/** A history that cannot be continued. The message is fit for the caller. */
export class HistoryError extends Error {
  override readonly name = 'HistoryError'
  readonly code: 'incompatible_history' | 'mixed_history'

  constructor(code: HistoryError['code']) {
    super(HISTORY_ERRORS[code])
    this.code = code
  }
}

const ADVICE = 'Send Responses API items, or only messages with role and content.'

const HISTORY_ERRORS = {
  incompatible_history: `The chat history is in the Chat Completions format. ${ADVICE}`,
  mixed_history: `The chat history mixes Responses API items with Chat Completions records. ${ADVICE}`,
} as const

/** @throws HistoryError the history holds records of the Chat Completions API. */
export function checkHistory(messages: readonly Message[]): void {
  if (!messages.some(isChatCompletionsRecord)) return
  throw new HistoryError(messages.some(isResponsesItem) ? 'mixed_history' : 'incompatible_history')
}

function isChatCompletionsRecord(message: Message): boolean {
  const { role, tool_call_id: toolCallId, tool_calls: toolCalls } = message
  return role === 'tool' || toolCallId != null || (Array.isArray(toolCalls) && toolCalls.length > 0)
}

/** Plain messages with role and content belong to both formats. */
function isResponsesItem(message: Message): boolean {
  if (isChatCompletionsRecord(message)) return false
  return message.call_id !== undefined || (message.type !== undefined && message.type !== 'message')
}

/** The conversation with the user, whichever agents took part in it. */
export function userThread(messages: readonly Message[]): Message[] {
  return messages.filter((message) => message.callerAgent == null)
}

/** What two agents said to each other, whoever asked. */
export function pairThread(messages: readonly Message[], a: string, b: string): Message[] {
  return messages.filter(
    ({ agent, callerAgent }) => (agent === a && callerAgent === b) || (agent === b && callerAgent === a),
  )
}

/** The trace to which a conversation belongs: the latest valid one of its history. */
export function traceIdOf(messages: readonly Message[]): string | undefined {
  return messages.findLast(({ run_trace_id: id }) => id !== undefined && TRACE_ID.test(id))?.run_trace_id
}

const TRACE_ID = /^trace_[0-9a-f]{32}$/i

/**
 * The items of a history that a model provider accepts, in their order. Metadata stays on them: take it off before
 * sending (`withoutMetadata`).
 *
 * `store: false` is for models whose responses the provider does not keep: nothing may then refer to a kept item, so
 * reasoning without its encrypted content, references and ids go. `next` follows the history: a call whose output is
 * there is no orphan.
 */
export function forModel<Item extends Message>(
  items: readonly Item[],
  { store = true, next = [] }: { readonly store?: boolean; readonly next?: readonly Message[] } = {},
): Item[] {
  const usable = items.filter((item) => !isProviderOnly(item)).map(withRealId)
  const unique = withUniqueIds(usable.filter(refersToSomething))
  return withoutOrphans(store ? unique : withoutStoredState(unique), { after: next })
}

/**
 * What a run has produced, as its client gets it, streamed or not. The items are those that the run itself has
 * recorded, so nothing depends on their place in a store.
 *
 * @param history - What the client has already: outputs of calls in there are not orphans.
 * @param later - What will follow, from a person or from the client: calls that it answers are not orphans either.
 */
export function newMessagesForClient(
  items: readonly Message[],
  history: readonly Message[] = [],
  later: readonly Message[] = [],
): Message[] {
  const unique = withUniqueIds(items.filter((item) => !isProviderOnly(item)))
  return withClientIds(withoutOrphans(unique, { before: history, after: later }))
}

/** Lists of tools that a provider made for itself. */
function isProviderOnly({ type }: Message): boolean {
  return type === 'mcp_list_tools' || type === 'openai_list_tools'
}

function refersToSomething({ type, id }: Message): boolean {
  return type !== 'item_reference' || id !== undefined
}

/** The items without what refers to items that the provider keeps, for when it keeps none. */
export function withoutStoredState<Item extends Message>(items: readonly Item[]): Item[] {
  return items.flatMap((item) => {
    if (item.type === 'item_reference') return []
    // Models of the AI SDK have all that they need in the item itself.
    if (item.type === 'reasoning' && !item['encrypted_content'] && !item['provider']) return []
    return [item.id !== undefined && idIsOptional(item) ? withoutId(item) : item]
  })
}

/**
 * The system item that tells an agent that the user has turned to it; undefined when none is needed: when the last turn
 * knew of no change of agent, or when the same agent answered it.
 */
export function recipientReminder(
  history: readonly Message[],
  recipient: { readonly name: string; readonly description?: string },
): WireItem | undefined {
  const turn = lastTurn(userThread(history))
  if (!turn.some(({ message_origin: origin }) => isControlReminder(origin))) return undefined
  const answer = turn.findLast(({ role, agent }) => role === 'assistant' && typeof agent === 'string')
  if (answer?.agent === recipient.name) return undefined
  const role = recipient.description ? ` Your role: ${recipient.description}` : ''
  const content = `The user now addresses you, ${recipient.name}.${role}\nContinue the conversation from here.`
  return { role: 'system', type: 'message', content }
}

/** From the user's last message on, with what the same run put before it. */
function lastTurn(thread: readonly Message[]): Message[] {
  const user = thread.findLastIndex(({ role }) => role === 'user')
  if (user < 0) return []
  const runId = thread[user]?.agent_run_id
  const isLead = (message: Message): boolean =>
    isControlReminder(message.message_origin) || (runId !== undefined && message.agent_run_id === runId)
  const last = thread.findLastIndex((message, index) => index < user && !isLead(message))
  return thread.slice(last + 1)
}

function isControlReminder(origin: string | undefined): boolean {
  return origin === 'handoff_reminder' || origin === 'recipient_reminder'
}
