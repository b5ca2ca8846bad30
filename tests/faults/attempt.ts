import { type SseFrame, SseParser } from '@bureau/protocol'
import type { Behaviour } from './model.ts'

/** One message as it was first thought of. Sent again, it is the same ask. */
export type Ask = {
  readonly number: number
  readonly usageRequestId: string
  readonly integrationId: string
  /** The alias of its chat. */
  readonly chat: string
  readonly behaviour: Behaviour
  readonly consumerId: string | null
  readonly withImage: boolean
  /** Sent instead of a decision about what the chat waits for. */
  readonly rejectPending?: true
  /** The code of the only failure that is right. */
  readonly mayFailWith?: string
}

/** How an attempt ended for its client. `left`: the client went away on purpose. `refused`: an answer other than 200. */
type Outcome = 'pending' | 'ended' | 'broken' | 'left' | 'refused' | 'unanswered'

/** One request of a client for a completion, and everything that the client saw. */
export class Attempt {
  readonly ask: Ask
  outcome: Outcome = 'pending'
  status: number | null = null
  /** `X-Agent-Run-Admitted`. */
  admitted: string | null = null
  isReplay = false
  code: string | null = null
  runId: string | null = null
  readonly frames: SseFrame[] = []
  /** Resolves with the first frame that holds the text of an answer, or when the attempt is over. */
  readonly speaking: Promise<void>
  /** Resolves when the answer has begun, or will not come. */
  readonly answered: Promise<void>
  /** Resolves when the client has nothing more to read; never rejects. */
  readonly over: Promise<void>
  readonly #speaking = Promise.withResolvers<void>()
  readonly #answered = Promise.withResolvers<void>()
  readonly #leaving = new AbortController()

  constructor(ask: Ask, send: (signal: AbortSignal) => Promise<Response>) {
    this.ask = ask
    this.speaking = this.#speaking.promise
    this.answered = this.#answered.promise
    this.over = this.#follow(send)
  }

  get lastId(): string {
    return this.frames.findLast(({ id }) => id !== null)?.id ?? '0'
  }

  /** The `messages` frame, once it is there. */
  get result(): { readonly status: string; readonly error?: { readonly code: string } } | undefined {
    const frame = this.frames.findLast(({ event }) => event === 'messages')
    return frame && JSON.parse(frame.data)
  }

  leave(): void {
    this.#leaving.abort()
  }

  async #follow(send: (signal: AbortSignal) => Promise<Response>): Promise<void> {
    try {
      await this.#read(await send(this.#leaving.signal))
    } catch {
      if (this.#leaving.signal.aborted) this.outcome = 'left'
      else this.outcome = this.status === null ? 'unanswered' : 'broken'
    }
    this.#answered.resolve()
    this.#speaking.resolve()
  }

  async #read(response: Response): Promise<void> {
    const { status, headers } = response
    this.status = status
    this.admitted = headers.get('x-agent-run-admitted')
    this.isReplay = headers.has('x-agent-run-replayed')
    this.runId = headers.get('x-agent-run-id')
    this.#answered.resolve()
    if (status !== 200) {
      this.code = ((await response.json()) as { code: string }).code
      this.outcome = 'refused'
      return
    }
    const parser = new SseParser()
    for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
      this.frames.push(...parser.push(text))
      if (text.includes('response.output_text.delta')) this.#speaking.resolve()
    }
    this.outcome = this.frames.at(-1)?.event === 'end' ? 'ended' : 'broken'
  }
}
