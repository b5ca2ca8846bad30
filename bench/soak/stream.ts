import { type Agent, type IncomingMessage, request as httpRequest } from 'node:http'
import { MarkCounter } from '../mark-counter.ts'
import { pause } from '../load.ts'
import { messageOf, type Plan } from './plans.ts'

/** Longer than the slowest plan by far: what has not ended by then is stuck. */
const STUCK_MS = 30_000
const LONGEST_DELAY_MS = 2_000
const SLOW_READ_MS = 40

export type Target = { readonly port: number; readonly agent: Agent }

type Asking = { readonly plan: Plan; readonly run: string; readonly random: () => number }

/** Opens one stream, does what the plan says, and resolves with what was wrong; null: nothing. */
export async function runStream(target: Target, { plan, run, random }: Asking): Promise<string | null> {
  const stream = new SoakStream(target)
  const ended = stream.open(messageOf(plan.behaviour, run), plan.act === 'read slowly')
  const delayMs = random() * LONGEST_DELAY_MS
  const acting = act(stream, plan, delayMs)
  const stuck = Promise.withResolvers<string>()
  const timer = setTimeout(() => stuck.resolve(`after ${STUCK_MS / 1000} s ${stream.state}`), STUCK_MS)
  try {
    const late = await Promise.race([Promise.all([ended, acting]).then(() => null), stuck.promise])
    return late ?? stream.problem ?? problemOf(stream, plan)
  } finally {
    clearTimeout(timer)
    stream.hangUp()
  }
}

async function act(stream: SoakStream, { act: what }: Plan, delayMs: number): Promise<void> {
  if (what === 'read' || what === 'read slowly') return
  if (what === 'hang up') {
    await pause(delayMs)
    return stream.hangUp()
  }
  await stream.begun
  await pause(delayMs)
  await stream.cancel(what === 'cancel' ? 'immediate' : 'after_turn')
}

function problemOf(stream: SoakStream, { ending }: Plan): string | null {
  if (ending === 'gone') return null
  if (stream.status !== 200) return `status ${stream.status}`
  if (stream.count('messages') !== 1) return `${stream.count('messages')} messages frames`
  if (stream.count('end') !== 1) return `${stream.count('end')} end frames`
  const failed = stream.count('error') > 0
  if (ending === 'complete' && failed) return 'an error in a run that should succeed'
  if (ending === 'failed' && !failed) return 'no error in a run that should fail'
  return null
}

type Mark = 'messages' | 'end' | 'error'

const MARKS: Readonly<Record<Mark, string>> = {
  messages: 'event: messages',
  end: 'event: end',
  error: '{"data":{"type":"error"',
}

class SoakStream {
  status = 0
  /** What went wrong below the stream. */
  problem: string | null = null
  /** Resolves when the run's id is known, or the stream is over. */
  readonly begun: Promise<void>
  readonly #begin: () => void
  readonly #target: Target
  readonly #marks = new Map(Object.entries(MARKS).map(([name, mark]) => [name, new MarkCounter(mark)]))
  readonly #abort = new AbortController()
  #head = ''
  #runId: string | undefined
  #cancelling = false

  constructor(target: Target) {
    this.#target = target
    const { promise, resolve } = Promise.withResolvers<void>()
    this.begun = promise
    this.#begin = resolve
  }

  count(mark: Mark): number {
    return this.#marks.get(mark)?.count ?? 0
  }

  /** How far it has come. */
  get state(): string {
    if (this.status === 0) return 'no answer has begun'
    if (this.count('end') > 0) return this.#cancelling ? 'the cancel is not answered' : 'the answer is not closed'
    return `the stream has not ended (${this.count('messages')} messages)`
  }

  hangUp(): void {
    this.#abort.abort()
  }

  /** Resolves when the stream is over, whoever has ended it. */
  async open(message: string, slowly: boolean): Promise<void> {
    try {
      const response = await this.#post('get_response_stream', { message })
      this.status = response.statusCode ?? 0
      for await (const bytes of response) {
        this.#read(bytes as Buffer)
        if (slowly) await pause(SLOW_READ_MS)
      }
    } catch (error) {
      if (!this.#abort.signal.aborted) this.problem = (error as Error).message
    } finally {
      this.#begin()
    }
  }

  async cancel(mode: 'immediate' | 'after_turn'): Promise<void> {
    if (this.#runId === undefined) return
    this.#cancelling = true
    try {
      const response = await this.#post('cancel_response_stream', { run_id: this.#runId, cancel_mode: mode })
      response.resume()
      this.#cancelling = false
      const { statusCode } = response
      // 404: the run was over before.
      if (statusCode !== 200 && statusCode !== 404) this.problem ??= `cancelling: status ${statusCode}`
    } catch (error) {
      if (!this.#abort.signal.aborted) this.problem ??= `cancelling: ${(error as Error).message}`
    }
  }

  #read(bytes: Buffer): void {
    for (const counter of this.#marks.values()) counter.feed(bytes)
    if (this.#runId !== undefined || this.#head.length > 4_096) return
    this.#head += bytes.toString('latin1')
    this.#runId = /"run_id":"([^"]+)"/.exec(this.#head)?.[1]
    if (this.#runId !== undefined) this.#begin()
  }

  #post(route: string, body: object): Promise<IncomingMessage> {
    const { port, agent } = this.#target
    const text = JSON.stringify(body)
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
    const options = { port, host: '127.0.0.1', agent, method: 'POST', path: `/soak/${route}`, headers }
    return new Promise((resolve, reject) => {
      const asking = httpRequest({ ...options, signal: this.#abort.signal }, resolve)
      asking.once('error', reject)
      asking.end(text)
    })
  }
}
