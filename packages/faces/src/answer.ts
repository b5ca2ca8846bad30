import { type RunEnded, textOf } from '@bureau/protocol'
import { type JsonLimits, readJson } from '@bureau/runtime'
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

/** An answer may be a list of what has names of its own. */
const LIMITS: JsonLimits = { values: 500_000, names: 150_000, differentNames: 150_000 }

/**
 * What a text says that may be JSON. What is not JSON, or more of it than a body may hold, is the text itself: whoever checks
 * it says so.
 */
export function jsonOrText(text: string): unknown {
  try {
    return readJson(Buffer.from(text), LIMITS).value
  } catch {
    return text
  }
}
