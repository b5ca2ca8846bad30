/** A tool server that cannot be reached. */
export class ToolServerError extends Error {
  override readonly name = 'ToolServerError'
  readonly server: string

  constructor(server: string, cause: unknown) {
    super(`The tool server "${server}" could not be reached.`, { cause })
    this.server = server
  }
}
