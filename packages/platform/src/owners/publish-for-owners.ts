import { type Agency, titleOf } from '@bureau/framework'
import type { Logger } from '@bureau/runtime'
import { chooseDefaultAgent } from '../integrations/describe-integrations.ts'
import { publishAgencies } from '../integrations/publish-agencies.ts'
import type { PlatformStore } from '../platform-store.ts'
import { listPublishingOwners } from './owners.repo.ts'

/** What it takes to publish the agencies of a deployment. */
export type Publishing = {
  readonly agencies: ReadonlyMap<string, Agency>
  readonly store: Pick<PlatformStore, 'db'>
  readonly log: Pick<Logger, 'info'>
}

/** Publishes each agency that an owner never had. @returns The integration of the first. */
export async function publishFor({ agencies, store, log }: Publishing, ownerId: string): Promise<string> {
  const wanted = [...agencies].map(([agencyId, agency]) => ({
    name: titleOf(agency, agencyId),
    agencyId,
    defaultAgent: chooseDefaultAgent({ agencies }, { agencyId }),
  }))
  const published = await store.db.run(publishAgencies, { ownerId, agencies: wanted })
  for (const { agencyId, apiIntegrationId, isNew } of published) {
    if (isNew) log.info({ agencyId, apiIntegrationId, ownerId }, 'published an agency as an integration')
  }
  return published[0]?.apiIntegrationId ?? ''
}

/** The same for all owners who get every agency. */
export async function publishForAll(publishing: Publishing): Promise<void> {
  for (const ownerId of await publishing.store.db.run(listPublishingOwners, undefined))
    await publishFor(publishing, ownerId)
}
