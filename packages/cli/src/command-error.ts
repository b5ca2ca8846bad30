/** A command that could not do what it was asked, for a reason outside of it. The message says what to do. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
}
