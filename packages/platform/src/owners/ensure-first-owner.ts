import { existsSync } from 'node:fs'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { createFirstApiKey } from '../api-keys/create-api-key.ts'
import type { Platform } from '../context.ts'
import { listIntegrations } from '../integrations/integrations.repo.ts'
import { ensureOwner } from './create-owner.ts'
import { findFirstOwner } from './owners.repo.ts'
import { publishFor, publishForAll } from './publish-for-owners.ts'

/** What a newcomer needs for the first completion. */
export type FirstCredentials = {
  readonly apiKey: string
  readonly apiIntegrationId: string
  readonly ownerId: string
}

const FILE = 'credentials.json'
/** Lies beside the file while the credentials are being made: what was cut short is done to the end by the next start. */
const UNFINISHED = `${FILE}.new`

/**
 * On an installation without owners: creates one, publishes every agency as an integration and issues an API key that
 * may do everything. The credentials are also written to `credentials.json` in the data folder, for its user alone; those of another
 * database that are there become `credentials.<owner>.json`.
 * Later, agencies that are new in the deployment are published for the owners who get all, and the log says so. If the
 * file names an integration whose agency is no longer deployed, it is rewritten with one whose agency is.
 *
 * Processes that start together make one owner and a key each. Every key works; a data folder that they share keeps one.
 *
 * Call it before the app listens: whoever reaches the platform then finds the credentials.
 *
 * @returns The credentials, to be shown this once; undefined when there is an owner already, or no agency to publish.
 */
export async function ensureFirstOwner(platform: Platform): Promise<FirstCredentials | undefined> {
  const { store, agencies, config } = platform
  if (agencies.size === 0) return undefined
  const unfinished = path.join(config.dataFolder, UNFINISHED)
  const known = await store.db.run(findFirstOwner, undefined)
  if (known && !existsSync(unfinished)) {
    await publishForAll(platform)
    await nameServedIntegration(platform)
    return undefined
  }
  await writeFile(unfinished, '', { mode: 0o600, flush: true })
  const { id: ownerId } = await ensureOwner(store.db, store.dataKeys, { name: 'First owner', publishesAgencies: true })
  const apiIntegrationId = await publishFor(platform, ownerId)
  const { id: keyId, token } = await createFirstApiKey(store.keyIssuer, ownerId, { name: 'First key' })
  const credentials = { apiKey: token, apiIntegrationId, ownerId }
  const file = path.join(config.dataFolder, FILE)
  await writeFile(`${file}.${keyId}`, textOf(credentials), { mode: 0o600, flush: true })
  await setAside(file, ownerId)
  await rename(`${file}.${keyId}`, file)
  await rm(unfinished, { force: true })
  return credentials
}

const textOf = (credentials: Partial<FirstCredentials>): string => `${JSON.stringify(credentials, null, 2)}\n`

/** An agency that is called otherwise now, or another file of agencies with the same data, would leave a file that is refused. */
async function nameServedIntegration({ store, agencies, config }: Platform): Promise<void> {
  const file = path.join(config.dataFolder, FILE)
  const known = await readFile(file, 'utf8')
    .then((text) => JSON.parse(text) as Partial<FirstCredentials>)
    .catch(() => undefined)
  if (known?.ownerId === undefined) return
  const { items } = await store.db.run(listIntegrations, { ownerId: known.ownerId, limit: 1_000, after: null })
  const served = items.filter(({ agencyId }) => agencies.has(agencyId)).map(({ apiIntegrationId: id }) => id)
  const first = served.at(-1)
  if (first === undefined || served.includes(known.apiIntegrationId ?? '')) return
  await writeFile(`${file}.served`, textOf({ ...known, apiIntegrationId: first }), { mode: 0o600, flush: true })
  await rename(`${file}.served`, file)
}

/** In a data folder that was used with another database, the file is the only copy of that one's key. */
async function setAside(file: string, ownerId: string): Promise<void> {
  const text = await readFile(file, 'utf8').catch(() => '')
  const [, other = ownerId] = /"ownerId":\s*"(own_\w+)"/.exec(text) ?? []
  if (other !== ownerId) await rename(file, file.replace(/json$/, `${other}.json`))
}
