import type { Tx } from '../db/operation.ts'
import { auditLog } from '../db/schema.ts'

type AuditEntry = {
  /** The API key that acted, the consumer, or `operator`. */
  readonly actor: string
  /** `noun.verb`, e.g. `integration.deleted`. */
  readonly action: string
  /** The id of what was changed. */
  readonly target: string
  /** Ids, names of fields and counts; never content. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** Records who changed what, in the transaction of the change. */
export async function appendAudit(tx: Tx, ownerId: string, ...entries: readonly AuditEntry[]): Promise<void> {
  if (entries.length > 0) await tx.insert(auditLog).values(entries.map((entry) => ({ ownerId, ...entry })))
}
