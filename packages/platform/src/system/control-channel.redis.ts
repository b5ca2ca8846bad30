import type { RedisConnection } from '@bureau/runtime'
import { CancelModeSchema } from '@bureau/protocol'
import { z } from 'zod'
import type { ControlChannel, ControlMessage } from './control-channel.ts'

const CHANNEL = 'bureau:control'

const Message = z.discriminatedUnion('type', [
  z.object({ type: z.literal('cancel'), runId: z.string(), mode: CancelModeSchema }),
  z.object({ type: z.literal('revoked'), keyId: z.string() }),
  z.object({ type: z.literal('lost_runs') }),
])

/** Over a channel of Redis that all processes of an installation subscribe to. */
export class RedisControlChannel implements ControlChannel {
  readonly #redis: RedisConnection
  readonly #listener: (text: string) => void
  readonly #subscribe = (): void => {
    const { subscriber } = this.#redis
    subscriber
      .subscribe(CHANNEL, this.#listener)
      .then(() => subscriber.off('ready', this.#subscribe))
      .catch(() => {}) // the next connection does it
  }

  private constructor(redis: RedisConnection, listener: (text: string) => void) {
    this.#redis = redis
    this.#listener = listener
  }

  /** `redis` stays its owner's to close. */
  static async open(
    redis: RedisConnection,
    onMessage: (message: ControlMessage) => void,
  ): Promise<RedisControlChannel> {
    const listener = (text: string): void => {
      const message = Message.safeParse(parse(text))
      if (message.success) onMessage(message.data)
    }
    const channel = new RedisControlChannel(redis, listener)
    // Once it has been answered, the client subscribes again by itself.
    if (redis.subscriber.isReady) await redis.subscriber.subscribe(CHANNEL, listener)
    else redis.subscriber.on('ready', channel.#subscribe)
    return channel
  }

  tell(message: ControlMessage): void {
    if (!this.#redis.commands.isReady) return
    this.#redis.commands.publish(CHANNEL, JSON.stringify(message)).catch(() => {}) // a loss is made up for
  }

  async close(): Promise<void> {
    this.#redis.subscriber.off('ready', this.#subscribe)
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
