/** A tool took longer than it may; the message is fit for the caller. */
export class ToolTimeout extends Error {
  override readonly name = 'ToolTimeout'

  constructor(tool: string, timeoutMs: number) {
    super(`The tool "${tool}" took longer than ${timeoutMs} ms.`)
  }
}

/** What the agents SDK returns instead of a result when one of its tools has thrown; it does not pass the error on. */
const SDK_FAILURE = 'An error occurred while running the tool. Please try again.'

/** @throws Error the result stands for a failure of a tool of the agents SDK. */
export function requireSuccess(result: unknown): unknown {
  if (result === SDK_FAILURE) throw new Error('The tool has thrown an error, which the agents SDK does not pass on.')
  return result
}
