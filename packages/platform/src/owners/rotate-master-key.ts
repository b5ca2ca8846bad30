import { and, eq } from 'drizzle-orm'
import type { Database } from '../db/database.ts'
import { systemOperation } from '../db/operation.ts'
import { owners, platformKeys } from '../db/schema.ts'
import { listOwners } from './owners.repo.ts'
import { rewrap } from './data-keys.ts'
import { listPlatformKeys } from '../security/platform-keys.repo.ts'
import { seal, SealError, unseal } from '../security/seal.ts'
import { platformKeyPlace } from '../security/server-key.ts'

/**
 * Wraps every data key and platform key with a new master key. The data itself stays as it is.
 *
 * Stop all processes first. Safe to repeat: what already has the new key is left alone.
 */
export async function rotateMasterKey(db: Database, from: Uint8Array, to: Uint8Array): Promise<void> {
  for (const { kid, privateEnc } of await db.run(listPlatformKeys, undefined)) {
    if (!privateEnc || isOpened(() => unseal(to, platformKeyPlace(kid), privateEnc))) continue
    const next = seal(to, platformKeyPlace(kid), unseal(from, platformKeyPlace(kid), privateEnc))
    await db.run(replacePlatformSecret, { kid, previous: privateEnc, next })
  }
  for (let after = ''; ;) {
    const page = await db.run(listOwners, after)
    for (const { id, dekWrapped } of page) {
      if (isOpened(() => rewrap(to, to, id, dekWrapped))) continue
      await db.run(replaceDataKey, { id, previous: dekWrapped, next: rewrap(from, to, id, dekWrapped) })
    }
    const last = page.at(-1)
    if (!last) return
    after = last.id
  }
}

function isOpened(open: () => unknown): boolean {
  try {
    open()
    return true
  } catch (error) {
    if (error instanceof SealError) return false
    throw error
  }
}

type Replacement = { readonly previous: Uint8Array; readonly next: Uint8Array }

export const replaceDataKey = systemOperation(
  { source: import.meta.url, name: 'replaceDataKey', lane: 'maintenance' },
  async (tx, { id, previous, next }: Replacement & { id: string }): Promise<void> => {
    await tx
      .update(owners)
      .set({ dekWrapped: next })
      .where(and(eq(owners.id, id), eq(owners.dekWrapped, previous)))
  },
)

export const replacePlatformSecret = systemOperation(
  { source: import.meta.url, name: 'replacePlatformSecret', lane: 'maintenance' },
  async (tx, { kid, previous, next }: Replacement & { kid: string }): Promise<void> => {
    const unchanged = and(eq(platformKeys.kid, kid), eq(platformKeys.privateEnc, previous))
    await tx.update(platformKeys).set({ privateEnc: next }).where(unchanged)
  },
)
