import { TOOL_FAILURE } from '@bureau/framework'

/** A tool took longer than it may; the message is fit for the caller. */
export class ToolTimeout extends Error {
  override readonly name = 'ToolTimeout'

  constructor(tool: string, timeoutMs: number) {
    super(`The tool "${tool}" took longer than ${timeoutMs} ms.`)
  }
}

/** @throws Error the result stands for a failure of such a tool. */
export function requireSuccess(result: unknown): unknown {
  if (result === TOOL_FAILURE) throw new Error('The tool has thrown an error, which its maker does not pass on.')
  return result
}
