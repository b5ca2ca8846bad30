import type { Logger, RedisConnection } from '@bureau/runtime'
import { CancelModeSchema } from '@bureau/protocol'
import { z } from 'zod'
import type { ControlChannel, ControlMessage } from './control-channel.ts'

const CHANNEL = 'bureau:control'
/** Other processes' messages are learned otherwise within the same time. */
const AGAIN_MS = 5_000

type RedisControlChannelOptions = {
  /** Says that Redis refuses the subscription. Default: nothing. */
  readonly log?: Pick<Logger, 'warn'>
  /** How soon a subscription that failed is tried again, in milliseconds. Default 5,000. */
  readonly againMs?: number
}

const Message = z.discriminatedUnion('type', [
  z.object({ type: z.literal('cancel'), runId: z.string(), mode: CancelModeSchema }),
  z.object({ type: z.literal('revoked'), keyId: z.string() }),
  z.object({ type: z.literal('lost_runs') }),
])

/** Over a channel of Redis that all processes of an installation subscribe to. */
export class RedisControlChannel implements ControlChannel {
  readonly #redis: RedisConnection
  readonly #listener: (text: string) => void
  readonly #options: RedisControlChannelOptions
  #again: NodeJS.Timeout | undefined
  #isRefused = false

  private constructor(redis: RedisConnection, listener: (text: string) => void, options: RedisControlChannelOptions) {
    this.#redis = redis
    this.#listener = listener
    this.#options = options
  }

  /** `redis` stays its owner's to close. */
  static async open(
    redis: RedisConnection,
    onMessage: (message: ControlMessage) => void,
    options: RedisControlChannelOptions = {},
  ): Promise<RedisControlChannel> {
    const listener = (text: string): void => {
      const message = Message.safeParse(parse(text))
      if (message.success) onMessage(message.data)
    }
    const channel = new RedisControlChannel(redis, listener, options)
    const subscribing = channel.#subscribe()
    if (redis.subscriber.isReady) await subscribing
    return channel
  }

  /** Once it has been answered, the client subscribes again by itself. */
  async #subscribe(): Promise<void> {
    const { subscriber } = this.#redis
    const { log, againMs = AGAIN_MS } = this.#options
    try {
      await subscriber.subscribe(CHANNEL, this.#listener)
    } catch (error) {
      const consequence = 'cancels and revoked keys of other processes arrive some seconds later'
      // Otherwise the connection was lost, which is logged elsewhere.
      if (subscriber.isReady && !this.#isRefused) {
        this.#isRefused = true
        log?.warn({ reason: (error as Error).message }, `Redis refuses a subscription: ${consequence}`)
      }
      if (subscriber.isOpen) this.#again = setTimeout(() => void this.#subscribe(), againMs).unref()
    }
  }

  tell(message: ControlMessage): void {
    if (!this.#redis.commands.isReady) return
    this.#redis.commands.publish(CHANNEL, JSON.stringify(message)).catch(() => {}) // a loss is made up for
  }

  async close(): Promise<void> {
    clearTimeout(this.#again)
    if (this.#redis.subscriber.isReady)
      await this.#redis.subscriber.unsubscribe(CHANNEL, this.#listener).catch(() => {})
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
