import { connect, type Socket } from 'node:net'
import { ChunkedReader } from '../chunked-reader.ts'
import { MarkCounter } from '../mark-counter.ts'
import { pause } from '../load.ts'
import { consumerOf, type Tenant } from './tenant.ts'

/** How completions are asked for. */
export type CompletionLoad = {
  readonly concurrency: number
  readonly allowances: boolean
  /** Runs that follow each other in one chat; 1: each has a chat of its own. */
  readonly turns: number
  /** Completions before anything counts, as far as they come within that time. */
  readonly warmUpRuns: number
  readonly warmUpMs: number
  readonly measureMs: number
  /** Called at both ends of the measured time. */
  readonly onPhase: (phase: 'begin' | 'end') => void
}

type CompletionResult = {
  /** Complete streams of the measured time, and its length. */
  readonly runs: number
  readonly seconds: number
  /** Milliseconds from each request to the head of its answer: the run is reserved then. */
  readonly admissionMs: readonly number[]
  /** The usageRequestIds of complete runs, some hundreds of them. */
  readonly requestIds: readonly string[]
}

const STREAM_LIMIT_MS = 20_000
/** The server closes a connection after 1,000 requests. */
const REQUESTS_PER_SOCKET = 900
const KEPT_IDS = 500

/**
 * Keeps `concurrency` completions going, each read to its `end`.
 *
 * @throws Error when one was refused or did not complete: a rate of broken answers means nothing.
 */
export async function measureCompletions(tenant: Tenant, load: CompletionLoad): Promise<CompletionResult> {
  const state = { phase: 'warm-up', warmUpRuns: 0, runs: 0 }
  const warm = Promise.withResolvers<void>()
  const admissionMs: number[] = []
  const requestIds: string[] = []
  const client = async (index: number): Promise<void> => {
    const connection = new CompletionConnection(tenant)
    const requests = requestsOf(tenant, load, index)
    while (state.phase !== 'over') {
      const request = requests.next().value
      const admitted = await connection.ask(JSON.stringify(request))
      if (state.phase === 'warm-up' && ++state.warmUpRuns >= load.warmUpRuns) warm.resolve()
      if (state.phase !== 'measured') continue
      state.runs++
      admissionMs.push(admitted)
      if (requestIds.length < KEPT_IDS) requestIds.push(request.usageRequestId)
    }
    connection.close()
  }
  const clients = Promise.all(Array.from({ length: load.concurrency }, (_, index) => client(index)))
  clients.catch(() => (state.phase = 'over'))
  await Promise.race([clients, warm.promise, pause(load.warmUpMs)])
  load.onPhase('begin')
  const startedAt = performance.now()
  state.phase = 'measured'
  await Promise.race([clients, pause(load.measureMs)])
  const seconds = (performance.now() - startedAt) / 1_000
  const { runs } = state
  state.phase = 'over'
  load.onPhase('end')
  await clients
  return { runs, seconds, admissionMs, requestIds }
}

type Request = { readonly usageRequestId: string } & Readonly<Record<string, unknown>>

let batch = 0

function* requestsOf(
  tenant: Tenant,
  { allowances, turns }: CompletionLoad,
  connection: number,
): Generator<Request, never> {
  const { plain, withAllowances } = tenant.integrations
  const name = `${++batch}-${connection}`
  for (let count = 0; ; count++) {
    yield {
      apiIntegrationId: allowances ? withAllowances : plain,
      message: 'What is the weather in Paris?',
      usageRequestId: `bench-${name}-${count}`,
      ...(allowances && { consumerId: consumerOf(connection) }),
      ...(turns > 1 && { aliasChatId: `chat-${name}-${Math.floor(count / turns)}` }),
    }
  }
}

/** One client connection with one completion at a time. */
class CompletionConnection {
  readonly #tenant: Tenant
  readonly #reader = new ChunkedReader()
  readonly #completions = new MarkCounter('"status":"completed","cancelled":false')
  readonly #ends = new MarkCounter('event: end')
  #socket: Socket | undefined
  #requests = 0
  #admittedAt = 0
  #settle: (problem: string | null) => void = () => {}

  constructor(tenant: Tenant) {
    this.#tenant = tenant
  }

  /** Milliseconds until the head of the answer. @throws Error the run did not complete. */
  async ask(body: string): Promise<number> {
    if (this.#requests++ % REQUESTS_PER_SOCKET === 0) this.close()
    for (const part of [this.#reader, this.#completions, this.#ends]) part.reset()
    this.#admittedAt = 0
    const askedAt = performance.now()
    const problem = await new Promise<string | null>((resolve) => {
      this.#settle = resolve
      this.#socket ??= this.#connect()
      this.#socket.write(this.#head(body) + body)
    })
    this.#settle = () => {}
    if (problem !== null) throw new Error(`a completion failed: ${problem}`)
    return this.#admittedAt - askedAt
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = undefined
  }

  #head(body: string): string {
    const { port, token } = this.#tenant
    const head = ['POST /get_completion_v2 HTTP/1.1', `host: 127.0.0.1:${port}`, `authorization: Bearer ${token}`]
    const content = ['content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]
    return `${[...head, ...content].join('\r\n')}\r\n\r\n`
  }

  #connect(): Socket {
    const socket = connect({ host: '127.0.0.1', port: this.#tenant.port, noDelay: true })
    socket.setTimeout(STREAM_LIMIT_MS, () => this.#settle('silent for too long'))
    socket.on('data', (bytes: Buffer) => this.#read(bytes))
    socket.on('error', (error) => this.#settle(error.message))
    socket.on('close', () => {
      if (this.#socket !== socket) return
      this.#socket = undefined
      this.#settle('closed early')
    })
    return socket
  }

  #read(bytes: Buffer): void {
    const complete = this.#reader.push(bytes, (body) => {
      this.#completions.feed(body)
      this.#ends.feed(body)
    })
    if (this.#admittedAt === 0 && this.#reader.status !== 0) this.#admittedAt = performance.now()
    if (this.#reader.status !== 200 && this.#reader.status !== 0) this.#settle(bytes.toString())
    if (complete) this.#settle(this.#completions.count === 1 && this.#ends.count === 1 ? null : 'it did not complete')
  }
}
