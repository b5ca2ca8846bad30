import { eq, sql } from 'drizzle-orm'
import { tenantOperation } from '../db/operation.ts'
import { integrations } from '../db/schema.ts'
import { addIntegration, type NewIntegration } from './manage-integrations.ts'

/** An agency and an integration of it; `isNew`: it was made just now. */
type PublishedAgency = { readonly agencyId: string; readonly apiIntegrationId: string; readonly isNew: boolean }

/** Of processes that start together, one publishes and the others find what it has made. */
const LOCK = 727_002

/**
 * Publishes agencies of the deployment as integrations of an owner, those that never were. What the owner has deleted
 * does not come back.
 *
 * @param args.agencies - The integration that each is to become.
 */
export const publishAgencies = tenantOperation(
  { source: import.meta.url, name: 'publishAgencies', lane: 'interactive' },
  async (tx, args: { ownerId: string; agencies: readonly NewIntegration[] }): Promise<PublishedAgency[]> => {
    const { ownerId, agencies } = args
    await tx.execute(sql`SELECT pg_advisory_xact_lock(${LOCK}, hashtext(${ownerId}))`)
    const rows = await tx
      .select({ id: integrations.id, agencyId: integrations.agencyId })
      .from(integrations)
      .where(eq(integrations.ownerId, ownerId))
    const known = new Map(rows.map(({ id, agencyId }) => [agencyId, id]))
    const published: PublishedAgency[] = []
    for (const integration of agencies) {
      const { agencyId } = integration
      const existing = known.get(agencyId)
      const apiIntegrationId =
        existing ?? (await addIntegration(tx, { ownerId, actor: 'operator', integration })).apiIntegrationId
      published.push({ agencyId, apiIntegrationId, isNew: existing === undefined })
    }
    return published
  },
)
