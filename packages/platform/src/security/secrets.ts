import { and, eq, sql } from 'drizzle-orm'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { secrets } from '../db/schema.ts'
import { newId } from '../ids.ts'
import { seal, unsealText } from './seal.ts'

/** A secret of an owner by name, e.g. scope `oauth`, name `<user>/<server>`. */
export type SecretName = { readonly ownerId: string; readonly scope: string; readonly name: string }

const isSecret = ({ ownerId, scope, name }: SecretName) =>
  and(eq(secrets.ownerId, ownerId), eq(secrets.scope, scope), eq(secrets.name, name))

/** The row is known by its name, so the name is what a secret is bound to. */
const place = ({ ownerId, scope, name }: SecretName) => ({
  table: 'secrets',
  column: 'ciphertext',
  owner: ownerId,
  row: `${scope}|${name}`,
})

/** Stores or replaces a secret, sealed with the owner's data key. */
export const putSecret = tenantOperation(
  { source: import.meta.url, name: 'putSecret', lane: 'interactive' },
  async (tx, args: SecretName & { dataKey: Uint8Array; secret: string }): Promise<void> => {
    const { ownerId, scope, name } = args
    const ciphertext = seal(args.dataKey, place(args), args.secret)
    await tx
      .insert(secrets)
      .values({ id: newId('sec'), ownerId, scope, name, ciphertext })
      .onConflictDoUpdate({
        target: [secrets.ownerId, secrets.scope, secrets.name],
        set: { ciphertext, updatedAt: sql`now()` },
      })
  },
)

export const findSecret = tenantOperation(
  { source: import.meta.url, name: 'findSecret', lane: 'interactive', onlyReads: true },
  async (tx, args: SecretName & { dataKey: Uint8Array }): Promise<string | undefined> => {
    const [row] = await tx.select().from(secrets).where(isSecret(args))
    return row && unsealText(args.dataKey, place(args), row.ciphertext)
  },
)

/** Deletes every secret of a scope whose name begins so, within a transaction of the owner. */
export async function deleteSecretsBelow(
  tx: Tx,
  { ownerId, scope, prefix }: { readonly ownerId: string; readonly scope: string; readonly prefix: string },
): Promise<void> {
  const isBelow = sql`starts_with(${secrets.name}, ${prefix})`
  await tx.delete(secrets).where(and(eq(secrets.ownerId, ownerId), eq(secrets.scope, scope), isBelow))
}

export const deleteSecret = tenantOperation(
  { source: import.meta.url, name: 'deleteSecret', lane: 'interactive' },
  async (tx, name: SecretName): Promise<void> => {
    await tx.delete(secrets).where(isSecret(name))
  },
)
