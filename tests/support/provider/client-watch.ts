import type { ServerResponse } from 'node:http'

/** Knows whether the client of one answer is still there, and whose doing the end was. */
export class ClientWatch {
  /** Aborts when the connection is gone or the provider closes. */
  readonly signal: AbortSignal
  #ours = false

  /** @param onAbandoned - Called when the client leaves before the answer has ended. */
  constructor(response: ServerResponse, closing: AbortSignal, onAbandoned: () => void) {
    const gone = new AbortController()
    this.signal = AbortSignal.any([gone.signal, closing])
    response.once('close', () => {
      gone.abort()
      if (!response.writableEnded && !this.#ours && !closing.aborted) onAbandoned()
    })
  }

  /** Call before breaking the connection off: the end that follows is not the client's. */
  expectEnd(): void {
    this.#ours = true
  }
}
