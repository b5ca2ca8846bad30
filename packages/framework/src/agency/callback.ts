/** A function that an agency's author has given threw, or returned what it must not. The message names it, for the log. */
export class CallbackFailed extends Error {
  override readonly name = 'CallbackFailed'

  constructor(callback: string, cause: unknown) {
    super(`${callback} failed`, { cause })
  }
}

/**
 * Calls a function that an agency's author has given.
 *
 * @param callback - Which function it is, of which tool or agent.
 * @throws CallbackFailed it throws.
 */
export async function callBack<Result>(callback: string, call: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await call()
  } catch (cause) {
    throw new CallbackFailed(callback, cause)
  }
}
