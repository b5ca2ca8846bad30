import type { createClient } from '@redis/client'
import { ConfigError } from '@bureau/protocol'
import type { Logger } from '../log.ts'

type RedisClient = ReturnType<typeof createClient>

/** Two connections to one Redis: commands, and subscriptions, which take a connection for themselves. */
export type RedisConnection = {
  readonly commands: RedisClient
  readonly subscriber: RedisClient
  readonly close: () => Promise<void>
}

/** A command that could not be sent, or a connection that was silent, for this long fails. Shorter interruptions go unnoticed. */
const COMMAND_TIMEOUT_MS = 5_000

const STEPS = 5

type ConnectRedisOptions = {
  readonly url: string
  /** Says when Redis is away, and when it is there again: once each, however often the client tries. Default: nothing. */
  readonly log?: Pick<Logger, 'warn' | 'info'>
  /** Longest wait for the first connection, in milliseconds. Default 10_000. */
  readonly firstConnectMs?: number
  /** True: when Redis is not there in that time, the connection is handed out all the same and comes about later. Default false. */
  readonly mayBeAway?: boolean
  /** A connection on which nothing is answered for so long is made anew, in milliseconds. Default 5,000. */
  readonly answerMs?: number
}

/**
 * Connects to Redis, and connects again whenever the connection is lost; subscriptions come back by themselves. The
 * library is loaded here and nowhere else, so that a server without Redis never does.
 *
 * @throws ConfigError Redis cannot be reached at the start, or refuses, or its client is not installed.
 */
export async function connectRedis({
  url,
  log,
  firstConnectMs = 10_000,
  mayBeAway = false,
  answerMs = COMMAND_TIMEOUT_MS,
}: ConnectRedisOptions): Promise<RedisConnection> {
  const { createClient } = await loadClient()
  const commands = createClient({
    url,
    RESP: 2,
    commandOptions: { timeout: COMMAND_TIMEOUT_MS },
    socket: { connectTimeout: COMMAND_TIMEOUT_MS },
  }) as unknown as RedisClient
  const subscriber = commands.duplicate()
  const { host } = new URL(url)
  let reason: string | undefined
  for (const client of [commands, subscriber]) client.on('error', ({ message }: Error) => (reason = message))
  reportLosses([commands, subscriber], host, log)
  const watches = [commands, subscriber].map((client) => replaceSilent(client, answerMs))
  const close = async (): Promise<void> => {
    watches.forEach(clearInterval)
    for (const client of [commands, subscriber]) {
      if (client.isReady) await client.close().catch(() => client.destroy())
      else if (client.isOpen) client.destroy()
    }
  }
  const late = Promise.withResolvers<void>()
  const timer = setTimeout(() => {
    if (mayBeAway) late.resolve()
    else late.reject(new Error(`no connection within ${firstConnectMs} ms`))
  }, firstConnectMs)
  const connected = Promise.all([commands.connect(), subscriber.connect()])
  connected.catch(() => {}) // also after nobody waits for it any more
  try {
    await Promise.race([connected, late.promise])
  } catch (cause) {
    await close()
    const why = reason === undefined ? '' : `: ${reason.replace(/\.$/, '')}`
    throw new ConfigError(`REDIS_URL: Redis at ${host} cannot be reached${why}.`, { cause })
  } finally {
    clearTimeout(timer)
  }
  return { commands, subscriber, close }
}

/** Without a listener for its errors, a lost connection would end the process. */
function reportLosses(clients: readonly RedisClient[], host: string, log: ConnectRedisOptions['log']): void {
  const away = new Set<RedisClient>()
  for (const client of clients) {
    client.on('error', ({ message }: Error) => {
      if (away.size === 0) log?.warn({ host, reason: message }, 'Redis cannot be reached: trying until it can')
      away.add(client)
    })
    client.on('ready', () => {
      if (away.delete(client) && away.size === 0) log?.info({ host }, 'Redis is there again')
    })
  }
}

/**
 * A Redis that hangs, or whose machine is gone without a word, keeps the connection open for minutes, and whatever was sent waits for
 * as long. The time is counted in steps: a process that was stopped itself has missed them all but one.
 */
function replaceSilent(client: RedisClient, answerMs: number): NodeJS.Timeout {
  let steps = 0
  let isAnswered = true
  const answered = (): void => void (isAnswered = true)
  const look = (): void => {
    steps++
    if (!client.isReady || (isAnswered ? steps < STEPS : steps <= STEPS)) return
    if (isAnswered) {
      steps = 0
      isAnswered = false
      client.ping().then(answered, answered)
    } else {
      client.emit('error', new Error(`no answer within ${answerMs} ms`))
      client.destroy() // what waits is refused, and subscriptions come back
      client.connect().catch(() => {}) // once it is closed
    }
  }
  return setInterval(look, answerMs / STEPS).unref()
}

/** Not installed with the server, because one process alone needs no Redis. */
async function loadClient(): Promise<typeof import('@redis/client')> {
  try {
    return await import('@redis/client')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new ConfigError('REDIS_URL: install the client for Redis: npm install @redis/client@6', { cause })
  }
}
