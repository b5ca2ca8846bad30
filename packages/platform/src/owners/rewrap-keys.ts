import { StartError } from '@bureau/protocol'
import { and, eq, gt, inArray, sql } from 'drizzle-orm'
import type { Database } from '../db/database.ts'
import { RollbackWith, systemOperation } from '../db/operation.ts'
import { owners, platformKeys, replicas } from '../db/schema.ts'
import { dataKeyPlace } from './data-keys.ts'
import { type Place, seal, SealError, unseal } from '../security/seal.ts'
import { platformKeyPlace } from '../security/server-key.ts'

type MasterKeys = { readonly from: Uint8Array; readonly to: Uint8Array }

type Rewrapping = { readonly from: Uint8Array; readonly to: () => Uint8Array }

const PAGE = 1_000

/**
 * Wraps every data key and platform key with a new master key, all or none; the data itself stays as it is. What has the
 * new key already is left alone.
 *
 * @param keys.to Called when nothing is in the way: then the new key is made.
 * @returns How many keys were wrapped. @throws SealError one of them opens with neither master key.
 * @throws StartError processes of the platform use the database.
 */
export async function rewrapKeys(db: Database, { from, to }: Rewrapping): Promise<number> {
  // Nobody else has the folder of an embedded database open; its rows may be of a process that was killed.
  const running = db.engine === 'pglite' ? 0 : await db.run(countRunning, undefined)
  if (running > 0) {
    throw new StartError(
      `Processes of the platform use this database: ${running}. Stop them all and try again; a killed process counts ` +
        'for 45 seconds.',
    )
  }
  const wrapped = await db.run(replaceWrappings, { from, to: to() })
  if (wrapped === undefined) throw new SealError('sealed with another key')
  return wrapped
}

export const countRunning = systemOperation(
  { source: import.meta.url, name: 'countRunning', lane: 'maintenance', onlyReads: true },
  (tx): Promise<number> =>
    tx.$count(
      replicas,
      and(inArray(replicas.state, ['live', 'draining']), gt(replicas.heartbeatAt, sql`now() - interval '45 seconds'`)),
    ),
)

/** Answers how many it has replaced; undefined when one opens with neither key. Then it has replaced none. */
export const replaceWrappings = systemOperation(
  { source: import.meta.url, name: 'replaceWrappings', lane: 'maintenance' },
  async (tx, keys: MasterKeys): Promise<number | undefined> => {
    let wrapped = 0
    for (const { kid, privateEnc } of await tx.select().from(platformKeys).for('update')) {
      const next = privateEnc && rewrap(keys, platformKeyPlace(kid), privateEnc)
      if (!next) continue
      await tx.update(platformKeys).set({ privateEnc: next }).where(eq(platformKeys.kid, kid))
      wrapped += 1
    }
    for (let after: string | undefined = ''; after !== undefined;) {
      const page = await tx
        .select({ id: owners.id, dekWrapped: owners.dekWrapped })
        .from(owners)
        .where(gt(owners.id, after))
        .orderBy(owners.id)
        .limit(PAGE)
        .for('update')
      for (const { id, dekWrapped } of page) {
        const next = rewrap(keys, dataKeyPlace(id), dekWrapped)
        if (!next) continue
        await tx.update(owners).set({ dekWrapped: next }).where(eq(owners.id, id))
        wrapped += 1
      }
      after = page.at(-1)?.id
    }
    return wrapped
  },
)

/** The same key under the new master key; undefined when it is there already. */
function rewrap({ from, to }: MasterKeys, place: Place, wrapped: Uint8Array): Uint8Array | undefined {
  if (open(to, place, wrapped)) return undefined
  const key = open(from, place, wrapped)
  if (!key) throw new RollbackWith(undefined)
  return seal(to, place, key)
}

function open(masterKey: Uint8Array, place: Place, wrapped: Uint8Array): Uint8Array | undefined {
  try {
    return unseal(masterKey, place, wrapped)
  } catch (error) {
    if (error instanceof SealError) return undefined
    throw error
  }
}
