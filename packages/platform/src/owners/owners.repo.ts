import type { Owner as OwnerView, OwnerPatch } from '@bureau/protocol'
import { ServiceError } from '@bureau/protocol'
import { asc, desc, eq, sql } from 'drizzle-orm'
import { appendAudit } from '../audit/audit.repo.ts'
import { systemOperation } from '../db/operation.ts'
import { olderThan, type Page, type PageRequest, toPage } from '../db/page.ts'
import { owners } from '../db/schema.ts'

export type Owner = typeof owners.$inferSelect

export const insertOwner = systemOperation(
  { source: import.meta.url, name: 'insertOwner', lane: 'interactive' },
  async (tx, owner: typeof owners.$inferInsert): Promise<Owner> => {
    const [row] = await tx.insert(owners).values(owner).returning()
    if (!row) throw new Error('the owner was not stored')
    return row
  },
)

export const findOwner = systemOperation(
  { source: import.meta.url, name: 'findOwner', lane: 'interactive', onlyReads: true },
  async (tx, ownerId: string): Promise<Owner | undefined> => {
    const [row] = await tx.select().from(owners).where(eq(owners.id, ownerId))
    return row
  },
)

export const findFirstOwner = systemOperation(
  { source: import.meta.url, name: 'findFirstOwner', lane: 'interactive', onlyReads: true },
  async (tx): Promise<Owner | undefined> => {
    const [row] = await tx.select().from(owners).orderBy(owners.id).limit(1)
    return row
  },
)

/** Of processes that start together, one makes the first owner and the others find it. */
const LOCK = 727_003

/** The first owner there is. Without owners it is this one, which is stored. */
export const findOrInsertOwner = systemOperation(
  { source: import.meta.url, name: 'findOrInsertOwner', lane: 'interactive' },
  async (tx, owner: typeof owners.$inferInsert): Promise<Owner> => {
    await tx.execute(sql`SELECT pg_advisory_xact_lock(${LOCK})`)
    return (await findFirstOwner.work(tx, undefined)) ?? insertOwner.work(tx, owner)
  },
)

/** Newest first. */
export const listOwners = systemOperation(
  { source: import.meta.url, name: 'listOwners', lane: 'interactive', onlyReads: true },
  async (tx, { limit, after }: PageRequest): Promise<Page<OwnerView>> => {
    const rows = await tx
      .select()
      .from(owners)
      .where(olderThan(owners.createdAt, owners.id, after))
      .orderBy(desc(owners.createdAt), desc(owners.id))
      .limit(limit + 1)
    return toPage(rows, limit, ownerView, (row) => [row.createdAt.toISOString(), row.id])
  },
)

/** The ids of those who get an integration of every agency, oldest first. */
export const listPublishingOwners = systemOperation(
  { source: import.meta.url, name: 'listPublishingOwners', lane: 'interactive', onlyReads: true },
  async (tx): Promise<string[]> => {
    const rows = await tx
      .select({ id: owners.id })
      .from(owners)
      .where(eq(owners.publishesAgencies, true))
      .orderBy(asc(owners.id))
    return rows.map(({ id }) => id)
  },
)

/** @throws ServiceError `owner_not_found` */
export const changeOwner = systemOperation(
  { source: import.meta.url, name: 'changeOwner', lane: 'interactive' },
  async (tx, { ownerId, changes }: { ownerId: string; changes: OwnerPatch }): Promise<OwnerView> => {
    const { name, status, publishesAgencies } = changes
    const [row] = await tx
      .update(owners)
      .set({
        ...(name !== undefined && { name }),
        ...(status !== undefined && { status: status === 'disabled' ? ('suspended' as const) : status }),
        ...(publishesAgencies !== undefined && { publishesAgencies }),
      })
      .where(eq(owners.id, ownerId))
      .returning()
    if (!row) throw new ServiceError('owner_not_found')
    const details = { changed: Object.keys(changes) }
    await appendAudit(tx, ownerId, { actor: 'operator', action: 'owner.updated', target: ownerId, details })
    return ownerView(row)
  },
)

/** An owner as the operator sees it: never its data key. */
export function ownerView(row: Owner): OwnerView {
  const { id, name, status, publishesAgencies, createdAt } = row
  return {
    object: 'owner',
    id,
    name,
    status: status === 'active' ? status : 'disabled',
    publishesAgencies,
    createdAt: createdAt.toISOString(),
  }
}
