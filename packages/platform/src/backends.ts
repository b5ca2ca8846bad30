import {
  connectRedis,
  type FileStores,
  localFileStores,
  type Logger,
  MemoryOAuthStateRegistry,
  MemoryRunLogs,
  type OAuthStateRegistry,
  openS3FileStores,
  RedisOAuthStateRegistry,
  RedisRunLogs,
  type RunLogs,
} from '@bureau/runtime'
import type { PlatformConfig } from './config.ts'
import { type ControlChannel, type ControlMessage, NO_OTHERS } from './system/control-channel.ts'
import { RedisControlChannel } from './system/control-channel.redis.ts'

/** What processes share besides the records. */
type Backends = {
  readonly logs: RunLogs
  readonly control: ControlChannel
  /** Sign-ins under way. */
  readonly oauthStates: OAuthStateRegistry
  readonly close: () => Promise<void>
}

/**
 * A bucket (`s3://…`) or a folder. A bucket that cannot be reached now does not keep a process from starting.
 *
 * @throws ConfigError the bucket refuses, or its client is not installed.
 */
export async function openFileStores(place: string, log: Pick<Logger, 'warn'>): Promise<FileStores> {
  if (!place.startsWith('s3:')) return localFileStores(place)
  return openS3FileStores(place, (error) => log.warn({ err: error }, 'the file store cannot be reached'))
}

/** Without Redis a process serves all the same, and need not wait long for it. */
const FIRST_CONNECT_MS = 2_000

/**
 * The only place that chooses: Redis where a URL is given, else the memory of this process.
 *
 * @throws ConfigError the client for Redis is not installed.
 */
export async function openBackends(
  { redisUrl }: Pick<PlatformConfig, 'redisUrl'>,
  log: Logger,
  onMessage: (message: ControlMessage) => void,
): Promise<Backends> {
  if (redisUrl === undefined) {
    const logs = new MemoryRunLogs()
    return { logs, control: NO_OTHERS, oauthStates: new MemoryOAuthStateRegistry(), close: () => logs.close() }
  }
  const redis = await connectRedis({ url: redisUrl, log, firstConnectMs: FIRST_CONNECT_MS, mayBeAway: true })
  if (!redis.commands.isReady) log.warn('until Redis is there, runs of other processes are followed by their records')
  const logs = await RedisRunLogs.open(redis, { log })
  const control = await RedisControlChannel.open(redis, onMessage, { log })
  // Apart from those of a self-hosted server on the same Redis: a callback belongs to one of the two.
  const oauthStates = new RedisOAuthStateRegistry(redis, { prefix: 'bureau:platform:' })
  const close = async (): Promise<void> => {
    await logs.close()
    await control.close()
    await oauthStates.close()
    await redis.close()
  }
  return { logs, control, oauthStates, close }
}
