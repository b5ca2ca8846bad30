import { connect, type Socket } from 'node:net'
import { ChunkedReader } from './chunked-reader.ts'
import { MarkCounter } from './mark-counter.ts'

/** Where streams are asked for, and how a complete one is recognised. */
export type Target = {
  readonly port: number
  readonly path: string
  readonly body: string
  /** Bytes that a complete stream holds. */
  readonly endMark: string
  /** Bytes that tell of a failure inside the stream: a run that fails is cheap and must not count. */
  readonly failMark: string
}

type Load = {
  readonly concurrency: number
  /** Milliseconds of load before anything counts. */
  readonly warmUpMs: number
  readonly measureMs: number
  /** Deltas that a complete stream holds; null: any. */
  readonly deltas: number | null
  /** Read at both ends of the measured time. */
  readonly readCpuNs: () => number
}

export type LoadResult = {
  /** Complete streams of the measured time. */
  readonly streams: number
  /** Streams that failed, ended early or lacked deltas, warm-up included, and what was wrong with the first one. */
  readonly broken: number
  readonly firstProblem: string | null
  readonly cpuNs: number
  /** Milliseconds from each request to its first delta. */
  readonly firstDeltaMs: readonly number[]
}

const DELTA = '"type":"response.output_text.delta"'
const STREAM_LIMIT_MS = 20_000

/** Keeps `concurrency` streams open, one after the other on each connection, and counts the complete ones. */
export async function measureLoad(target: Target, load: Load): Promise<LoadResult> {
  const totals = new Totals()
  const client = async (): Promise<void> => {
    const connection = new StreamConnection(target, load.deltas)
    while (totals.goesOn) totals.add(await connection.ask())
    connection.close()
  }
  const clients = Promise.all(Array.from({ length: load.concurrency }, client))
  await pause(load.warmUpMs)
  const before = load.readCpuNs()
  totals.phase = 'measured'
  await pause(load.measureMs)
  const cpuNs = load.readCpuNs() - before
  totals.phase = 'over'
  await clients
  const { streams, broken, firstProblem, firstDeltaMs } = totals
  return { streams, broken, firstProblem, firstDeltaMs, cpuNs }
}

class Totals {
  phase: 'warm-up' | 'measured' | 'over' = 'warm-up'
  streams = 0
  broken = 0
  firstProblem: string | null = null
  readonly firstDeltaMs: number[] = []

  /** False when the time is over, or when so much is broken that there is nothing to measure. */
  get goesOn(): boolean {
    return this.phase !== 'over' && this.broken < 20
  }

  add({ problem, firstDeltaMs }: StreamOutcome): void {
    if (problem !== null) {
      this.broken++
      this.firstProblem ??= problem
    } else if (this.phase === 'measured') {
      this.streams++
      this.firstDeltaMs.push(firstDeltaMs)
    }
  }
}

/**
 * Opens `count` streams and waits until each has shown a delta. They stay open until the result is called.
 *
 * @throws Error when one of them fails or shows nothing.
 */
export async function holdStreams(target: Target, count: number): Promise<() => void> {
  const connections: StreamConnection[] = []
  const opened: Promise<void>[] = []
  for (let index = 0; index < count; index++) {
    const connection = new StreamConnection(target, null)
    connections.push(connection)
    opened.push(connection.open())
    // In waves: what is measured is many open streams, not a thousand connections in one moment.
    if (index % 25 === 24) await pause(20)
  }
  await Promise.all(opened)
  return () => connections.forEach((connection) => connection.close())
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** `problem` is null for a complete stream. */
type StreamOutcome = { readonly problem: string | null; readonly firstDeltaMs: number }

/** One client connection that asks for one stream at a time. */
class StreamConnection {
  readonly #target: Target
  readonly #deltas: number | null
  readonly #request: Buffer
  readonly #reader = new ChunkedReader()
  readonly #deltaMarks = new MarkCounter(DELTA)
  readonly #endMarks: MarkCounter
  readonly #failMarks: MarkCounter
  #socket: Socket | undefined
  #askedAt = 0
  #firstDeltaMs = Number.NaN
  #settle: (problem: string | null) => void = () => undefined
  #onFirstDelta: () => void = () => undefined

  constructor(target: Target, deltas: number | null) {
    this.#target = target
    this.#deltas = deltas
    this.#endMarks = new MarkCounter(target.endMark)
    this.#failMarks = new MarkCounter(target.failMark)
    const { path, port, body } = target
    const head = [`POST ${path} HTTP/1.1`, `host: 127.0.0.1:${port}`, 'accept: text/event-stream']
    const content = ['content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]
    this.#request = Buffer.from(`${[...head, ...content].join('\r\n')}\r\n\r\n${body}`)
  }

  async ask(): Promise<StreamOutcome> {
    const problem = await new Promise<string | null>((resolve) => this.#start(resolve))
    this.#settle = () => undefined
    if (problem !== null) this.close()
    return { problem, firstDeltaMs: this.#firstDeltaMs }
  }

  /** Resolves with the first delta, and leaves the stream open. */
  open(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#onFirstDelta = resolve
      this.#start((problem) => reject(new Error(`A held stream ended: ${problem ?? 'complete'}`)))
    })
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = undefined
  }

  #start(settle: (problem: string | null) => void): void {
    this.#settle = settle
    this.#reader.reset()
    this.#deltaMarks.reset()
    this.#endMarks.reset()
    this.#failMarks.reset()
    this.#firstDeltaMs = Number.NaN
    this.#socket ??= this.#connect()
    this.#askedAt = performance.now()
    this.#socket.write(this.#request)
  }

  #connect(): Socket {
    const socket = connect({ host: '127.0.0.1', port: this.#target.port, noDelay: true })
    socket.setTimeout(STREAM_LIMIT_MS, () => this.#settle('silent for too long'))
    socket.on('data', (bytes: Buffer) => this.#read(bytes))
    socket.on('error', (error) => this.#settle(error.message))
    socket.on('close', () => {
      if (this.#socket === socket) this.#socket = undefined
      this.#settle('closed early')
    })
    return socket
  }

  #read(bytes: Buffer): void {
    const complete = this.#reader.push(bytes, (body) => {
      this.#deltaMarks.feed(body)
      this.#endMarks.feed(body)
      this.#failMarks.feed(body)
    })
    if (this.#reader.status !== 200 && this.#reader.status !== 0) this.#settle(`status ${this.#reader.status}`)
    if (Number.isNaN(this.#firstDeltaMs) && this.#deltaMarks.count > 0) {
      this.#firstDeltaMs = performance.now() - this.#askedAt
      this.#onFirstDelta()
    }
    if (complete) this.#settle(this.#problem())
  }

  #problem(): string | null {
    if (this.#failMarks.count > 0) return 'the run failed'
    if (this.#endMarks.count === 0) return `complete without ${this.#target.endMark}`
    const seen = this.#deltaMarks.count
    return this.#deltas === null || seen === this.#deltas ? null : `${seen} deltas instead of ${this.#deltas}`
  }
}
