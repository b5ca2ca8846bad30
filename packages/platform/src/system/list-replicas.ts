import type { PlatformReplica } from '@bureau/protocol'
import { desc, sql } from 'drizzle-orm'
import { systemOperation } from '../db/operation.ts'
import { replicas } from '../db/schema.ts'

const MAX_REPLICAS = 50

/** The processes of the platform: those that run, and those that ended within a day; latest first. */
export const listReplicas = systemOperation(
  { source: import.meta.url, name: 'listReplicas', lane: 'interactive', onlyReads: true },
  async (tx, { bootId }: { readonly bootId: string }): Promise<PlatformReplica[]> => {
    const rows = await tx
      .select({
        id: replicas.bootId,
        state: replicas.state,
        version: replicas.version,
        startedAt: replicas.startedAt,
        heartbeatAt: replicas.heartbeatAt,
        // Drizzle would leave the names of the tables away here.
        activeRuns: sql<number>`(SELECT count(*) FROM runs r WHERE r.boot_id = replicas.boot_id
          AND r.state IN ('reserved','running'))`.mapWith(Number),
      })
      .from(replicas)
      .where(sql`${replicas.state} IN ('live','draining') OR ${replicas.heartbeatAt} > now() - interval '1 day'`)
      .orderBy(desc(replicas.startedAt))
      .limit(MAX_REPLICAS)
    return rows.map(({ startedAt, heartbeatAt, ...row }) => ({
      ...row,
      startedAt: startedAt.toISOString(),
      heartbeatAt: heartbeatAt.toISOString(),
      answers: row.id === bootId,
    }))
  },
)
