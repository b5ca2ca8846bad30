import { limitedText, MAX_OUTPUT_CHARACTERS, TOOL_FAILURE } from '@bureau/framework'

/** Why a tool has failed, in a message that is fit for the caller. */
export class ToolFailure extends Error {
  override readonly name = 'ToolFailure'
}

/** @throws Error the result stands for a failure of such a tool. */
export function requireSuccess(result: unknown): unknown {
  if (result === TOOL_FAILURE) throw new Error('The tool has thrown an error, which its maker does not pass on.')
  return result
}

/**
 * The answer with a tool's result, as JSON. A text that is too long is cut, with a note, as in a run.
 *
 * @throws ToolFailure a result of another kind is too long: a part of it would say something else.
 */
export function toolAnswer(tool: string, result: unknown): string {
  if (typeof result === 'string') return JSON.stringify({ response: limitedText(result) })
  const answer = JSON.stringify({ response: result ?? null })
  if (answer.length <= MAX_OUTPUT_CHARACTERS) return answer
  throw new ToolFailure(`The result of the tool "${tool}" is longer than ${MAX_OUTPUT_CHARACTERS} characters of JSON.`)
}
