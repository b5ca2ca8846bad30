import type { AuditEntry } from '@bureau/protocol'
import { and, desc, eq, lt } from 'drizzle-orm'
import { tenantOperation } from '../db/operation.ts'
import { type Page, type PageRequest, toPage } from '../db/page.ts'
import { auditLog } from '../db/schema.ts'

type Row = typeof auditLog.$inferSelect

/** Who changed what, newest first. */
export const listAudit = tenantOperation(
  { source: import.meta.url, name: 'listAudit', lane: 'interactive', onlyReads: true },
  async (tx, { ownerId, limit, after }: PageRequest & { readonly ownerId: string }): Promise<Page<AuditEntry>> => {
    const older = after ? lt(auditLog.id, Number(after[1])) : undefined
    const rows = await tx
      .select()
      .from(auditLog)
      .where(and(eq(auditLog.ownerId, ownerId), older))
      .orderBy(desc(auditLog.id))
      .limit(limit + 1)
    return toPage(rows, limit, entryView, ({ id, createdAt }) => [createdAt.toISOString(), String(id)])
  },
)

function entryView({ id, actor, action, target, details, createdAt }: Row): AuditEntry {
  return {
    object: 'audit_entry',
    id: String(id),
    actor,
    action,
    target,
    details,
    createdAt: createdAt.toISOString(),
  }
}
