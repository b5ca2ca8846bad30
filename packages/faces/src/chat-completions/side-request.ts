import type { ChatRequest } from './read-request.ts'

/**
 * What becomes of the requests that chat pages make by themselves, for titles, tags and follow-up questions: `agency` runs
 * the agency, like any other; `model` asks the model of the addressed agent, without its instructions, tools and
 * handoffs; `refuse` answers 400.
 */
export type SideRequests = (typeof SIDE_REQUESTS)[number]

export const SIDE_REQUESTS = ['agency', 'model', 'refuse'] as const

/** Open WebUI begins all of them like this, and quotes the conversation. */
const TASK = /^\s*### Task:/
const QUOTED = '<chat_history>'

/** Whether a chat page asks this for itself, and not its user. */
export function isSideRequest({ messages, stream, tools }: ChatRequest): boolean {
  if (stream === true || tools?.length || messages.length !== 1) return false
  const { role, content } = (messages[0] ?? {}) as { readonly role?: unknown; readonly content?: unknown }
  return role === 'user' && typeof content === 'string' && TASK.test(content) && content.includes(QUOTED)
}
