import { ServiceError } from '@bureau/protocol'
import type { FastifyRequest } from 'fastify'
import { PassThrough, type Readable } from 'node:stream'

const MIB = 1_048_576
/** Each takes time and memory, whatever is in it. Packets of a slow network carry ten times as much as is needed for this. */
const MAX_PIECES = 200_000

export type BodyLimits = {
  /** Bytes of bodies that are on their way, of all requests together. Default 512 MiB. */
  readonly maxBytes?: number
  /** Of the requests of one caller. Default: a quarter of it. */
  readonly maxBytesOfCaller?: number
  /** What must arrive of a body in each `windowMs`, unless it ends. Default 16 KiB in 15 seconds. */
  readonly minBytes?: number
  readonly windowMs?: number
  /**
   * Whose request it is: a caller, and whoever acts for that one, each of whom has a quarter of its share. Nobody in particular: only
   * `maxBytes` counts.
   */
  readonly callersOf?: (request: FastifyRequest) => readonly string[]
}

/**
 * Receives bodies, and bounds what those that are still on their way hold in memory: bytes count from when they arrive
 * until the last one has.
 */
export class BodyReceiver {
  readonly #limits: Required<BodyLimits>
  readonly #ofCallers = new Map<string, number>()
  #total = 0

  constructor({ maxBytes = 512 * MIB, ...limits }: BodyLimits = {}) {
    const shares = { maxBytes, maxBytesOfCaller: maxBytes / 4, callersOf: () => [] }
    this.#limits = { ...shares, minBytes: 16_384, windowMs: 15_000, ...limits }
  }

  /**
   * The whole body. What is refused for anything but its length is read to its end and thrown away: clients that are still
   * writing would not see the answer.
   *
   * @throws ServiceError `body_too_large`; `body_too_slow`; `rate_limited`: this caller's share is taken; `overloaded`.
   *   The error of the connection when it broke off.
   */
  receive(request: FastifyRequest, payload: Readable): Promise<Buffer> {
    const { bodyLimit } = request.routeOptions
    if (Number(request.headers['content-length']) > bodyLimit) {
      return Promise.reject(new ServiceError('body_too_large'))
    }
    const body = new ArrivingBody(this, this.#limits.callersOf(request), bodyLimit)
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
    const watch = this.#watch(() => body, reject)
    const add = (chunk: Buffer): void => {
      if (!body.add(chunk)) reject(new ServiceError('body_too_large'))
    }
    payload.on('data', add)
    payload.once('end', () => body.settle(resolve, reject))
    payload.once('error', (error: Error) => reject(brokenOff(error)))
    payload.once('close', () => payload.readableEnded || reject(clientHasLeft()))
    return promise.finally(() => {
      clearInterval(watch)
      body.release()
      payload.off('data', add).resume()
    })
  }

  /**
   * The body as it comes, for who stores it piece by piece and bounds it. Reading fails with ServiceError `body_too_slow`,
   * or the error of the connection; a reader that is slower than the client holds the client up.
   */
  passOn(payload: Readable): Readable {
    const body = new PassThrough()
    const fail = (error: Error): void => void body.destroy(error)
    let arrived = 0
    const watch = this.#watch(() => ({ arrived, isHeldUp: body.readableLength > 0 }), fail)
    payload.on('data', (chunk: Buffer) => (arrived += chunk.length))
    payload.once('error', (error: Error) => fail(brokenOff(error)))
    payload.once('close', () => body.writableEnded || fail(clientHasLeft()))
    payload.once('end', () => clearInterval(watch)) // also of a request that was answered unread
    // What nobody reads any more is thrown away: clients that are still writing would not see the answer.
    body.once('close', () => {
      clearInterval(watch)
      payload.unpipe(body).resume()
    })
    body.on('error', () => {}) // for its reader to see, if it has one
    return payload.pipe(body)
  }

  /** After a pause of this process, what waits at the door is let in before it counts as late. */
  #watch(progress: () => Progress, reject: (error: Error) => void): NodeJS.Timeout {
    const { minBytes, windowMs } = this.#limits
    let before = 0
    const look = (): void => {
      const { arrived, isHeldUp } = progress()
      if (arrived - before < minBytes && !isHeldUp) reject(new ServiceError('body_too_slow'))
      before = arrived
    }
    return setInterval(() => setImmediate(look), windowMs)
  }

  /** Bytes of a body of these callers' arrive. Returns why there is no room; undefined: they are held. */
  hold(callers: readonly string[], bytes: number): ServiceError | undefined {
    const { maxBytes, maxBytesOfCaller } = this.#limits
    const isOver = (caller: string, depth: number): boolean =>
      (this.#ofCallers.get(caller) ?? 0) + bytes > maxBytesOfCaller / 4 ** depth
    if (callers.some(isOver)) return new ServiceError('rate_limited', { message: SHARE_TAKEN, ...SOON })
    if (this.#total + bytes > maxBytes) return new ServiceError('overloaded', SOON)
    this.#add(callers, bytes)
    return undefined
  }

  release(callers: readonly string[], bytes: number): void {
    this.#add(callers, -bytes)
  }

  #add(callers: readonly string[], bytes: number): void {
    this.#total += bytes
    for (const caller of callers) {
      const left = (this.#ofCallers.get(caller) ?? 0) + bytes
      if (left === 0) this.#ofCallers.delete(caller)
      else this.#ofCallers.set(caller, left)
    }
  }
}

const SHARE_TAKEN = 'Too much is being sent at once. Wait for other requests of yours to arrive.'
const SOON = { headers: { 'Retry-After': '1' } }

type Progress = {
  /** Bytes. */
  readonly arrived: number
  /** By its reader, so that the client is not to blame. */
  readonly isHeldUp: boolean
}

class ArrivingBody implements Progress {
  readonly isHeldUp = false
  readonly #receiver: BodyReceiver
  readonly #callers: readonly string[]
  readonly #maxBytes: number
  #chunks: Buffer[] = []
  #pieces = 0
  #held = 0
  #refusal: ServiceError | undefined
  arrived = 0

  constructor(receiver: BodyReceiver, callers: readonly string[], maxBytes: number) {
    this.#receiver = receiver
    this.#callers = callers
    this.#maxBytes = maxBytes
  }

  /** False: it is longer than it may be, or comes in too many pieces. */
  add(chunk: Buffer): boolean {
    this.arrived += chunk.length
    if (this.arrived > this.#maxBytes || ++this.#pieces > MAX_PIECES) return false
    if (this.#refusal) return true
    this.#refusal = this.#receiver.hold(this.#callers, chunk.length)
    if (this.#refusal) this.release()
    else {
      this.#chunks.push(chunk)
      this.#held += chunk.length
    }
    return true
  }

  settle(resolve: (body: Buffer) => void, reject: (error: Error) => void): void {
    if (this.#refusal) reject(this.#refusal)
    else resolve(this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks, this.#held))
  }

  release(): void {
    this.#receiver.release(this.#callers, this.#held)
    this.#held = 0
    this.#chunks = []
  }
}

/** Fastify answers with the status; there is hardly anybody left to read it. */
function brokenOff(error: Error): Error {
  return Object.assign(error, { statusCode: 400 })
}

/** Made only when it is needed: the stack of an error costs more than the rest of a short body. */
function clientHasLeft(): Error {
  return brokenOff(new Error('the client has left'))
}
