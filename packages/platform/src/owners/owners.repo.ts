import { eq } from 'drizzle-orm'
import { systemOperation } from '../db/operation.ts'
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
  { source: import.meta.url, name: 'findOwner', lane: 'interactive' },
  async (tx, ownerId: string): Promise<Owner | undefined> => {
    const [row] = await tx.select().from(owners).where(eq(owners.id, ownerId))
    return row
  },
)

export const findFirstOwner = systemOperation(
  { source: import.meta.url, name: 'findFirstOwner', lane: 'interactive' },
  async (tx): Promise<Owner | undefined> => {
    const [row] = await tx.select().from(owners).orderBy(owners.id).limit(1)
    return row
  },
)
