import { type RunEnded, textOf } from '@bureau/protocol'
import type { FaceAgency } from './face-host.ts'

/**
 * What a completed run has answered: text, or an object where the agent has a structured output. A server that records its runs
 * has the answer among their messages only.
 */
export function answerOf({ output, new_messages: messages }: RunEnded, { agency }: FaceAgency): unknown {
  if (output !== null) return output
  const last = messages.findLast(({ role, callerAgent }) => role === 'assistant' && callerAgent == null)
  const text = textOf(last?.content)
  const isText = (agency.agents.get(last?.agent ?? '')?.outputType ?? 'text') === 'text'
  return isText ? text : jsonOrText(text)
}

/** What a text says that may be JSON. What is not JSON is the text itself: whoever checks it says so. */
export function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
