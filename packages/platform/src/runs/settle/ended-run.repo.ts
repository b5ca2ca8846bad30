import type { WebhookEvent } from '@bureau/protocol'
import { and, eq, sql } from 'drizzle-orm'
import type { AttachmentState } from '../../db/column-types.ts'
import { prepared } from '../../db/prepared.ts'
import { members, messageAttachments, runEventChunks, runs, runStates } from '../../db/schema.ts'
import { announcing } from '../../outbox/outbox.repo.ts'
import { outputParts, type OutputValues } from '../../run-records/run-output.repo.ts'
import { isRun, type RunRow } from '../../run-records/runs.repo.ts'

type Outcome = Pick<RunRow, 'chatId' | 'memberId' | 'state' | 'usage' | 'finishedAt' | 'lastEventSeq'> &
  Pick<RunRow, 'errorCode' | 'errorClass' | 'errorMessage'>

type EndedRun = OutputValues &
  Outcome & {
    readonly attachments: AttachmentState
    /** The last stretch of its event log; null when that is stored. */
    readonly firstSeq: number | null
    readonly lastSeq: number | null
    readonly body: Uint8Array | null
    readonly topic: WebhookEvent
    readonly eventId: string
    /** What the announcement says. */
    readonly payload: Readonly<Record<string, unknown>>
  }

/**
 * All that becomes of a run at its end, in one statement: its output, the end of its event log, what was attached to its
 * message, its member's count of active runs, the announcement, and the run itself. Everything is locked.
 */
export const updateEnded = prepared((tx, ended: EndedRun) => {
  const { ownerId, runId, memberId, firstSeq, lastSeq, body, topic, eventId, payload } = ended
  const { state, usage, finishedAt, lastEventSeq, errorCode, errorClass, errorMessage } = ended
  const { runId: ofRun, ownerId: ofOwner, state: attachmentState } = messageAttachments
  const logged = tx.$with('logged').as(
    tx
      .insert(runEventChunks)
      .select(
        // In the order of the table's columns.
        sql`SELECT ${runId}, ${firstSeq}::bigint, ${lastSeq}::bigint, ${ownerId}, ${body}::bytea, now()
          WHERE ${firstSeq}::bigint IS NOT NULL`,
      )
      .onConflictDoNothing(),
  )
  const settled = tx.$with('settled').as(
    tx
      .update(messageAttachments)
      .set({ state: ended.attachments })
      .where(and(eq(ofRun, runId), eq(ofOwner, ownerId), eq(attachmentState, 'pending'))),
  )
  const freed = tx.$with('freed').as(
    tx
      .update(members)
      .set({ activeRuns: sql`${members.activeRuns} - 1` })
      .where(and(sql`${members.id} = ${memberId}`, eq(members.ownerId, ownerId))),
  )
  const forgotten = tx
    .$with('forgotten')
    .as(tx.delete(runStates).where(and(eq(runStates.runId, runId), eq(runStates.ownerId, ownerId))))
  const announced = tx.$with('announced').as(announcing(tx, { ownerId, topic, eventId, runId, payload }))
  return tx
    .with(...outputParts(tx, ended.chatId, ended), logged, settled, freed, forgotten, announced)
    .update(runs)
    .set({
      state,
      usage,
      finishedAt,
      contextEnc: null,
      released: false,
      lastEventSeq,
      errorCode,
      errorClass,
      errorMessage,
    })
    .where(isRun({ ownerId, runId }))
    .returning({ id: runs.id })
})
