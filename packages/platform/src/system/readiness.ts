import { statfs } from 'node:fs/promises'
import { sql } from 'drizzle-orm'
import type { Platform } from '../context.ts'
import { systemOperation } from '../db/operation.ts'

/** Why this process should get no requests now; null: it is ready. */
type Unready = 'draining' | 'database_unavailable' | 'disk_full' | null

const MIN_FREE = 0.05

/** Changes nothing, and is refused all the same by a standby or a server that was made read-only, where no run could begin. */
export const pingDatabase = systemOperation(
  { source: import.meta.url, name: 'pingDatabase', lane: 'interactive' },
  async (tx): Promise<void> => {
    await tx.execute(sql`UPDATE schema_migrations SET version = version WHERE false`)
  },
)

/** What this process has to do without for now, though it is ready. */
export function listDegraded({ logs }: Platform): string[] {
  return logs.isReachable ? [] : ['redis']
}

export async function checkReadiness({ executor, store, config }: Platform): Promise<Unready> {
  if (executor.draining) return 'draining'
  try {
    await store.db.run(pingDatabase, undefined)
  } catch {
    return 'database_unavailable'
  }
  const disk = await statfs(config.dataFolder).catch(() => undefined)
  return disk && disk.bavail < disk.blocks * MIN_FREE ? 'disk_full' : null
}
