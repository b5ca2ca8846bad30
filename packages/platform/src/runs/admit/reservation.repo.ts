import type { Message } from '@bureau/protocol'
import { and, eq, sql } from 'drizzle-orm'
import type { WithSubqueryWithSelection } from 'drizzle-orm/pg-core'
import type { Tx } from '../../db/operation.ts'
import { prepared } from '../../db/prepared.ts'
import { chats, members, messages, runs } from '../../db/schema.ts'
import type { RunRow } from '../../run-records/runs.repo.ts'
import { aroundRun, type ContextRow, historyBudget, type StoredMessage } from './run-context.repo.ts'

type Given = Pick<
  RunRow,
  'id' | 'ownerId' | 'integrationId' | 'chatId' | 'memberId' | 'consumerId' | 'usageRequestId' | 'fingerprint'
> &
  Pick<RunRow, 'agent' | 'agencyVersion' | 'textOnly' | 'bootId' | 'periodStart' | 'input' | 'contextEnc'>

/** A run that is to be reserved, with the message that it will answer. */
type NewReservation = Given & {
  readonly timeoutSeconds: number
  readonly messageId: string
  /** The message, without its time. */
  readonly item: Message
}

/** The run, the number of its message, and what its context is made of. */
export type Reservation = { readonly run: RunRow; readonly messageSeq: number; readonly context: ContextRow }

/**
 * The run, its place in the chat, the count of its member's active runs, and the message that it will answer: all or,
 * when another run has the chat or the usageRequestId, undefined. Chat and member are locked.
 */
export const reserveInChat = (tx: Tx, reservation: NewReservation): Promise<Reservation | undefined> =>
  reserve(tx, reservation, insertInChat)

/**
 * As `reserveInChat`, together with the chat, which is new and has no alias. The caller undoes it when it gets undefined:
 * another run has the usageRequestId.
 */
export const reserveWithChat = (tx: Tx, reservation: NewReservation): Promise<Reservation | undefined> =>
  reserve(tx, reservation, insertWithChat)

/** What is inserted: the message as JSON, and what the messages before it may have of the history, in bytes. */
type Values = Omit<NewReservation, 'item'> & { readonly item: string; readonly earlierBytes: number }

async function reserve(
  tx: Tx,
  { item, ...reservation }: NewReservation,
  insert: typeof insertInChat,
): Promise<Reservation | undefined> {
  const json = JSON.stringify(item)
  const earlierBytes = historyBudget(reservation.input) - Buffer.byteLength(json)
  const [inserted] = await insert(tx, { ...reservation, item: json, earlierBytes })
  if (!inserted) return undefined
  const { timeoutSeconds, messageId: _, ...given } = reservation
  const { createdAt, deadlineAt, seq, messages: earlier, ...around } = inserted
  const run = { ...given, createdAt, deadlineAt, startedAt: createdAt, ...UNTOUCHED }
  const timed = { ...item, timestamp: createdAt.getTime() * 1000 }
  const own: StoredMessage = { seq, runId: run.id, role: 'user', status: 'ok', item: timed }
  const context = { ...run, ...around, messages: [...earlier, own], remainingMs: timeoutSeconds * 1000 }
  return { run, messageSeq: seq, context }
}

/** What a run has before anything has happened to it. */
const UNTOUCHED = {
  state: 'running',
  cancelMode: null,
  cancelRequestedAt: null,
  errorCode: null,
  errorMessage: null,
  errorClass: null,
  usage: null,
  lastEventSeq: 0,
  finishedAt: null,
  attempt: 1,
  stalled: 0,
  released: false,
  waitingSince: null,
} as const

const insertInChat = prepared((tx, reservation: Values) => {
  const run = insertedRun(tx, reservation)
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
      .where(and(eq(chats.id, reservation.chatId), eq(chats.ownerId, reservation.ownerId)))
      .returning({ seq: lastSeq }),
  )
  return withTheRest(tx, reservation, { run, chat })
})

const insertWithChat = prepared((tx, reservation: Values) => {
  const { id, chatId, ownerId, integrationId, consumerId } = reservation
  const values = { id: chatId, ownerId, integrationId, createdByConsumer: consumerId, lastRunId: id, nextSeq: 2 }
  const chat = tx.$with('chat').as(tx.insert(chats).values(values).returning({ seq: lastSeq }))
  return withTheRest(tx, reservation, { run: insertedRun(tx, reservation), chat })
})

const lastSeq = sql<number>`${chats.nextSeq} - 1`.mapWith(Number).as('seq')

function insertedRun(tx: Tx, reservation: Values) {
  const { id, ownerId, integrationId, chatId, memberId, consumerId, usageRequestId, fingerprint } = reservation
  const { agent, agencyVersion, textOnly, bootId, periodStart, input, contextEnc, timeoutSeconds } = reservation
  const keys = { id, ownerId, integrationId, chatId, memberId, consumerId, usageRequestId, bootId, periodStart }
  const deadlineAt = sql`now() + make_interval(secs => ${timeoutSeconds})`
  const given = { fingerprint, agent, agencyVersion, textOnly, input, contextEnc }
  const values = { ...keys, ...given, deadlineAt, state: UNTOUCHED.state, startedAt: sql`now()` }
  return tx.$with('run').as(tx.insert(runs).values(values).onConflictDoNothing().returning())
}

type Parts = {
  readonly run: ReturnType<typeof insertedRun>
  readonly chat: WithSubqueryWithSelection<{ seq: typeof lastSeq }, 'chat'>
}

function withTheRest(tx: Tx, reservation: Values, { run, chat }: Parts) {
  const member = tx.$with('member').as(
    tx
      .update(members)
      .set({ activeRuns: sql`${members.activeRuns} + 1` })
      .from(run)
      .where(and(sql`${members.id} = ${reservation.memberId}`, eq(members.ownerId, reservation.ownerId))),
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
    .select({
      createdAt: run.createdAt,
      deadlineAt: run.deadlineAt,
      seq: chat.seq,
      ...aroundRun('run', sql`${reservation.earlierBytes}::bigint`), // none of it sees what this statement writes
    })
    .from(run)
    .innerJoin(chat, sql`true`)
}
