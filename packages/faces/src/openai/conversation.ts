import type { WireItem } from '@bureau/protocol'
import { invalidParam } from './api-error.ts'

export const NO_MESSAGE = 'there is no message to answer'

/** A conversation as a run takes it. */
export type Conversation = {
  /** What the caller's system and developer messages say: added to the agent's own instructions. */
  readonly instructions: readonly string[]
  readonly history: readonly WireItem[]
  /** All after the last answer: what the user says now, or what the caller's functions have returned. */
  readonly message: readonly WireItem[]
}

/**
 * Splits what a caller has sent, the newest last.
 *
 * @param param - The member of the request.
 * @throws ApiError 400: there is nothing but instructions.
 */
export function readConversation(items: readonly WireItem[], param: string): Conversation {
  const spoken = items.filter((item) => !isInstruction(item))
  if (spoken.length === 0) throw invalidParam(param, NO_MESSAGE, 'missing')
  const start = spoken.findLastIndex(isOfModel) + 1
  return {
    instructions: items.filter(isInstruction).map(({ content }) => plainText(content)),
    history: spoken.slice(0, start),
    message: spoken.slice(start),
  }
}

const isInstruction = ({ role }: WireItem): boolean => role === 'system' || role === 'developer'

/** What comes from a model, and not from its user or caller. */
function isOfModel({ type, role }: WireItem): boolean {
  return role === undefined ? type !== 'function_call_output' : role === 'assistant'
}

/** The texts of a content, which is text or parts. */
export function plainText(content: unknown): string {
  if (typeof content === 'string') return content
  return (content as { readonly text?: unknown }[])
    .map(({ text }) => text)
    .filter((text) => typeof text === 'string')
    .join('')
}
