import { and, eq, inArray } from 'drizzle-orm'
import { tenantOperation } from '../db/operation.ts'
import { messageAttachments } from '../db/schema.ts'

/** What fetching an attachment showed. `gone`: its address was refused (401, 403, 404, 410), later turns need a fresh one. */
export type AttachmentNote = { readonly id: string } & (
  | { readonly gone: true }
  | { readonly gone: false; readonly mime: string; readonly bytes: number }
)

/** Notes what fetching the attachments of a run showed. One of the run itself stays pending: its end decides. */
export const noteAttachments = tenantOperation(
  { source: import.meta.url, name: 'noteAttachments', lane: 'run' },
  async (tx, { ownerId, notes }: { ownerId: string; notes: readonly AttachmentNote[] }): Promise<void> => {
    const gone = notes.filter((note) => note.gone).map((note) => note.id)
    if (gone.length > 0) {
      await tx
        .update(messageAttachments)
        .set({ state: 'needs_refresh' })
        .where(
          and(
            inArray(messageAttachments.id, gone),
            eq(messageAttachments.ownerId, ownerId),
            eq(messageAttachments.state, 'ok'),
          ),
        )
    }
    for (const note of notes) {
      if (note.gone) continue
      await tx
        .update(messageAttachments)
        .set({ mime: note.mime, byteSize: note.bytes })
        .where(and(eq(messageAttachments.id, note.id), eq(messageAttachments.ownerId, ownerId)))
    }
  },
)
