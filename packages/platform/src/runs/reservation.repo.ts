import { and, eq, sql } from 'drizzle-orm'
import { prepared } from '../db/prepared.ts'
import { chats, members, messages, runs } from '../db/schema.ts'
import type { RunRow } from './runs.repo.ts'

/** A run that is to be reserved, with the message that it will answer. */
export type NewReservation = Pick<
  RunRow,
  'id' | 'ownerId' | 'integrationId' | 'chatId' | 'fingerprint' | 'agent' | 'bootId' | 'memberId' | 'periodStart'
> &
  Pick<RunRow, 'consumerId' | 'usageRequestId' | 'textOnly' | 'input' | 'contextEnc'> & {
    readonly timeoutSeconds: number
    readonly messageId: string
    /** The message as JSON, without its time. */
    readonly item: string
  }

/**
 * The run, its place in the chat, the count of its member's active runs, and the message that it will answer: all or,
 * when another run has the chat or the usageRequestId, nothing. Chat and member are locked.
 *
 * Answers the run and the number of its message.
 */
export const insertReservation = prepared((tx, reservation: NewReservation) => {
  const { id, ownerId, integrationId, chatId, fingerprint, agent, bootId, memberId, periodStart } = reservation
  const { consumerId, usageRequestId, textOnly, input, contextEnc, timeoutSeconds } = reservation
  const keys = { id, ownerId, integrationId, chatId, memberId, consumerId, usageRequestId, bootId, periodStart }
  const deadlineAt = sql`now() + make_interval(secs => ${timeoutSeconds})`
  const values = { ...keys, fingerprint, agent, textOnly, input, contextEnc, deadlineAt, state: 'reserved' as const }
  const run = tx.$with('run').as(tx.insert(runs).values(values).onConflictDoNothing().returning())
  const chat = tx.$with('chat').as(
    tx
      .update(chats)
      .set({
        nextSeq: sql`${chats.nextSeq} + 1`,
        lastRunId: sql`${run.id}`,
        createdByConsumer: sql`coalesce(${chats.createdByConsumer}, ${run.consumerId})`,
        updatedAt: sql`now()`,
      })
      .from(run)
      .where(and(eq(chats.id, chatId), eq(chats.ownerId, ownerId)))
      .returning({ seq: sql<number>`${chats.nextSeq} - 1`.mapWith(Number).as('seq') }),
  )
  const member = tx.$with('member').as(
    tx
      .update(members)
      .set({ activeRuns: sql`${members.activeRuns} + 1` })
      .from(run)
      .where(and(sql`${members.id} = ${memberId}`, eq(members.ownerId, ownerId))),
  )
  const microseconds = sql`(extract(epoch FROM ${run.createdAt}) * 1000000)::bigint`
  // In the order of the table's columns.
  const message = tx.$with('message').as(
    tx.insert(messages).select(sql`
      SELECT ${run.chatId}, ${chat.seq}, ${run.ownerId}, ${run.id}, ${reservation.messageId}, 'user',
        ${reservation.item}::jsonb || jsonb_build_object('timestamp', ${microseconds}), 'ok', now()
      FROM run, chat`),
  )
  return tx
    .with(run, chat, member, message)
    .select()
    .from(run)
    .innerJoin(chat, sql`true`)
})
