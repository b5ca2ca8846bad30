import { and, eq, sql } from 'drizzle-orm'
import { tenantOperation } from '../db/operation.ts'
import { leases } from '../db/schema.ts'

/** Who alone may do something, by its name. `holder` is unguessed by others and new for each lease. */
export type Lease = { readonly ownerId: string; readonly name: string; readonly holder: string }

/** A lease that is not renewed for this long belongs to nobody. */
export const LEASE_SECONDS = 15

const end = sql`now() + make_interval(secs => ${LEASE_SECONDS})`

/** Also when it ends later than any can: it was taken while the clock of the database was ahead. */
const IS_OVER = sql`(${leases.expiresAt} < now() OR ${leases.expiresAt} > now() + make_interval(secs => ${2 * LEASE_SECONDS}))`

const isHeld = ({ ownerId, name, holder }: Lease) =>
  and(eq(leases.ownerId, ownerId), eq(leases.name, name), eq(leases.holder, holder))

/** False: somebody else has it. */
export const takeLease = tenantOperation(
  { source: import.meta.url, name: 'takeLease', lane: 'run' },
  async (tx, { ownerId, name, holder }: Lease): Promise<boolean> => {
    const taken = await tx
      .insert(leases)
      .values({ ownerId, name, holder, expiresAt: end })
      .onConflictDoUpdate({
        target: [leases.ownerId, leases.name],
        set: { holder, expiresAt: end },
        setWhere: IS_OVER,
      })
      .returning({ holder: leases.holder })
    return taken.length > 0
  },
)

export const renewLease = tenantOperation(
  { source: import.meta.url, name: 'renewLease', lane: 'run' },
  async (tx, lease: Lease): Promise<void> => {
    await tx.update(leases).set({ expiresAt: end }).where(isHeld(lease))
  },
)

export const releaseLease = tenantOperation(
  { source: import.meta.url, name: 'releaseLease', lane: 'run' },
  async (tx, lease: Lease): Promise<void> => {
    await tx.delete(leases).where(isHeld(lease))
  },
)
