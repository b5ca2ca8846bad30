import { FileClaims } from './claims/claims.file.ts'
import { RedisClaims } from './claims/claims.redis.ts'
import type { Claims } from './claims/claims.ts'
import type { Logger } from './log.ts'
import { MemoryOAuthStateRegistry } from './oauth/oauth-state-registry.memory.ts'
import { RedisOAuthStateRegistry } from './oauth/oauth-state-registry.redis.ts'
import type { OAuthStateRegistry } from './oauth/oauth-state-registry.ts'
import { connectRedis } from './redis/connect-redis.ts'
import { MemoryRunLogs } from './run-log/run-log.memory.ts'
import { RedisRunLogs } from './run-log/run-log.redis.ts'
import type { RunLogs } from './run-log/run-log.ts'
import { MemoryRequestIds } from './runs/request-ids.memory.ts'
import { RedisRequestIds } from './runs/request-ids.redis.ts'
import type { RequestIds } from './runs/request-ids.ts'
import { MemoryRunRegistry } from './runs/run-registry.memory.ts'
import { RedisRunRegistry } from './runs/run-registry.redis.ts'
import type { RunRegistry } from './runs/run-registry.ts'
import { MemoryTickets } from './tickets/tickets.memory.ts'
import { RedisTickets } from './tickets/tickets.redis.ts'
import type { Tickets } from './tickets/tickets.ts'

/** Where a process keeps what other processes may have to know. */
type Backends = {
  readonly runs: RunRegistry
  readonly requestIds: RequestIds
  /** Of runs that outlive their clients. */
  readonly runLogs: RunLogs
  readonly oauthStates: OAuthStateRegistry
  readonly tickets: Tickets
  readonly claims: Claims
  readonly close: () => Promise<void>
}

type BackendsOptions = {
  readonly redisUrl: string | undefined
  readonly log: Logger
  /** How long the log of a run is kept after its end, in milliseconds. */
  readonly resumeMs: number
  /** Folder of what may happen once, without Redis. */
  readonly claimsDirectory: string
}

/** Logs of the platform may be in the same Redis. */
const RUN_LOGS_PREFIX = 'bureau:kept:'

/**
 * The only place that chooses: Redis where a URL is given, else the memory and the disk of this process.
 *
 * @throws ConfigError Redis cannot be reached.
 */
export async function openBackends({ redisUrl, log, resumeMs, claimsDirectory }: BackendsOptions): Promise<Backends> {
  const redis = redisUrl === undefined ? undefined : await connectRedis({ url: redisUrl, log })
  const runs = redis ? new RedisRunRegistry(redis) : new MemoryRunRegistry()
  const kept = { prefix: RUN_LOGS_PREFIX, lingerMs: resumeMs }
  const runLogs = redis ? await RedisRunLogs.open(redis, { ...kept, log }) : new MemoryRunLogs(kept)
  const oauthStates = redis ? new RedisOAuthStateRegistry(redis) : new MemoryOAuthStateRegistry()
  return {
    runs,
    requestIds: redis ? new RedisRequestIds(redis) : new MemoryRequestIds(),
    runLogs,
    oauthStates,
    tickets: redis ? new RedisTickets(redis) : new MemoryTickets(),
    claims: redis ? new RedisClaims(redis) : new FileClaims({ directory: claimsDirectory }),
    close: async () => {
      await runs.close()
      await runLogs.close()
      await oauthStates.close()
      await redis?.close()
    },
  }
}
