import { eq } from 'drizzle-orm'
import { systemOperation } from '../db/operation.ts'
import { platformKeys } from '../db/schema.ts'

export type PlatformKey = typeof platformKeys.$inferSelect

/** Stores a key unless its `kid` exists: of processes that start together, one key wins and all read it. */
export const ensurePlatformKey = systemOperation(
  { source: import.meta.url, name: 'ensurePlatformKey', lane: 'interactive' },
  async (tx, key: typeof platformKeys.$inferInsert): Promise<PlatformKey> => {
    await tx.insert(platformKeys).values(key).onConflictDoNothing()
    const [row] = await tx.select().from(platformKeys).where(eq(platformKeys.kid, key.kid))
    if (!row) throw new Error(`platform key ${key.kid} vanished`)
    return row
  },
)

export const listPlatformKeys = systemOperation(
  { source: import.meta.url, name: 'listPlatformKeys', lane: 'interactive', onlyReads: true },
  (tx): Promise<PlatformKey[]> => tx.select().from(platformKeys),
)
