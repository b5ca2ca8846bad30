import { and, eq, gt, sql } from 'drizzle-orm'
import { appendAudit } from '../audit/audit.repo.ts'
import { systemOperation, tenantOperation } from '../db/operation.ts'
import { integrations, mountUsage, uploads } from '../db/schema.ts'
import { moveMountUsage } from './uploads.repo.ts'

type Mount = { readonly ownerId: string; readonly integrationId: string }

/** So many integrations, by their ids, from behind one of them: each may have a mount. */
export const listMountOwners = systemOperation(
  { source: import.meta.url, name: 'listMountOwners', lane: 'maintenance', onlyReads: true },
  async (tx, { after, limit }: { readonly after: string | null; readonly limit: number }): Promise<Mount[]> =>
    tx
      .select({ ownerId: integrations.ownerId, integrationId: integrations.id })
      .from(integrations)
      .where(gt(integrations.id, after ?? ''))
      .orderBy(integrations.id)
      .limit(limit),
)

/** Corrects the counters after the mount was measured: agents write there as well. */
export const setMountUsage = tenantOperation(
  { source: import.meta.url, name: 'setMountUsage', lane: 'maintenance' },
  async (tx, args: Mount & { usedBytes: number; fileCount: number }): Promise<void> => {
    const { ownerId, integrationId, usedBytes, fileCount } = args
    await tx
      .insert(mountUsage)
      .values({ ownerId, integrationId, usedBytes, fileCount })
      .onConflictDoUpdate({ target: mountUsage.integrationId, set: { usedBytes, fileCount } })
  },
)

/** Notes that a file of the mount was deleted, and by whom, so that its room counts as free at once. */
export const noteFileDeleted = tenantOperation(
  { source: import.meta.url, name: 'noteFileDeleted', lane: 'interactive' },
  async (tx, args: Mount & { actor: string; path: string; bytes: number }): Promise<void> => {
    const { ownerId, integrationId, actor, path, bytes } = args
    const [upload] = await tx
      .update(uploads)
      .set({ state: 'deleted' })
      .where(
        and(
          eq(uploads.integrationId, integrationId),
          eq(uploads.ownerId, ownerId),
          eq(uploads.path, path),
          sql`${uploads.state} = 'ready'`,
        ),
      )
      .returning({ id: uploads.id })
    await moveMountUsage(tx, { ownerId, integrationId }, { used: 0 - bytes, files: -1 })
    // What agents wrote was not uploaded.
    const details = { uploadId: upload?.id ?? null, bytes }
    await appendAudit(tx, ownerId, { actor, action: 'file.deleted', target: integrationId, details })
  },
)
