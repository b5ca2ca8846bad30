import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { createFirstApiKey } from '../api-keys/create-api-key.ts'
import type { Platform } from '../context.ts'
import { chooseDefaultAgent } from '../integrations/describe-integrations.ts'
import { createIntegration } from '../integrations/manage-integrations.ts'
import { createOwner } from './create-owner.ts'
import { listOwners } from './owners.repo.ts'

/** What a newcomer needs for the first completion. */
export type FirstCredentials = {
  readonly apiKey: string
  readonly apiIntegrationId: string
  readonly ownerId: string
  readonly baseUrl: string
}

const FILE = 'credentials.json'

/**
 * On an installation without owners: creates one, publishes every agency as an integration and issues an API key that
 * may do everything. The credentials are also written to `credentials.json` in the data folder, for its user alone.
 *
 * @returns The credentials, to be shown this once; undefined when there is an owner already, or no agency to publish.
 */
export async function ensureFirstOwner(platform: Platform, baseUrl: string): Promise<FirstCredentials | undefined> {
  const { store, agencies, config } = platform
  const [first] = agencies.keys()
  if (first === undefined || (await store.db.run(listOwners, '')).length > 0) return undefined
  const { id: ownerId } = await createOwner(store.db, store.dataKeys, { name: 'First owner' })
  const published: string[] = []
  for (const [agencyId, { name }] of agencies) {
    const integration = { name, agencyId, defaultAgent: chooseDefaultAgent(platform, { agencyId }) }
    const { apiIntegrationId } = await store.db.run(createIntegration, { ownerId, actor: 'operator', integration })
    published.push(apiIntegrationId)
  }
  const { token } = await createFirstApiKey(store.keyIssuer, ownerId, 'First key')
  const credentials = { apiKey: token, apiIntegrationId: published[0] ?? '', ownerId, baseUrl }
  const file = path.join(config.dataFolder, FILE)
  await writeFile(file, `${JSON.stringify(credentials, null, 2)}\n`, { mode: 0o600, flush: true })
  return credentials
}
