import type { Message, Usage } from '@bureau/protocol'
import { and, eq, getTableColumns, sql } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { allowancePeriods, chats, members, messages, runs } from '../db/schema.ts'
import { storable } from '../db/storable.ts'
import type { MemberRow, PeriodRow } from '../members/allowance-policy.ts'
import { isRun, type RunKey, type RunRow } from './runs.repo.ts'

/** A complete item of a run. `id` is made by the runner (`newId('msg')`): repeated with it, the item is stored once. */
export type RunItemRecord = { readonly id: string; readonly item: Message }

/** One finished model call. `callSeq` counts the calls of a run from 1: repeated with it, the call is charged once. */
export type ModelCall = {
  readonly callSeq: number
  readonly agent: string
  readonly model: string
  /** False: the price of the model is unknown, `total_cost` is 0. */
  readonly priced: boolean
  readonly usage: Usage
}

/** A run with everything that its writes change, locked in the order member, period, chat, run. */
export type HeldRun = {
  readonly run: RunRow
  readonly member: MemberRow | null
  readonly period: PeriodRow | null
}

type Holding = RunKey & { readonly money: boolean; readonly chat: boolean }

/** Undefined: there is no such run. Locks what is asked for, in the one order that all transactions follow. */
export async function holdRun(tx: Tx, { ownerId, runId, money, chat }: Holding): Promise<HeldRun | undefined> {
  const key: RunKey = { ownerId, runId }
  const [member = null] = money ? await lockMemberOf(tx, key) : []
  // A change of policy moves active runs to another period, under the member's lock: so it is looked up only now.
  const [period = null] = member ? await lockPeriodOf(tx, key) : []
  if (member && !period) throw new Error('the allowance period of a run vanished')
  const [run] = await (chat ? lockRunAndChat(tx, key) : lockRun(tx, key))
  return run && { run, member, period }
}

const lockMemberOf = prepared((tx, { ownerId, runId }: RunKey) =>
  tx
    .select()
    .from(members)
    .where(and(sql`${members.id} = (SELECT member_id FROM runs WHERE id = ${runId})`, eq(members.ownerId, ownerId)))
    .for('update'),
)

const lockPeriodOf = prepared((tx, { ownerId, runId }: RunKey) => {
  const ofRun = sql`(${allowancePeriods.memberId}, ${allowancePeriods.periodStart}) =
    (SELECT member_id, period_start FROM runs WHERE id = ${runId})`
  return tx
    .select()
    .from(allowancePeriods)
    .where(and(ofRun, eq(allowancePeriods.ownerId, ownerId)))
    .for('update')
})

const lockRun = prepared((tx, key: RunKey) => tx.select().from(runs).where(isRun(key)).for('update'))

/** The chat first: its row is locked before it can be joined, the run's when it has been. */
const lockRunAndChat = prepared((tx, key: RunKey) => {
  const ofRun = sql`${chats.id} = (SELECT chat_id FROM runs WHERE id = ${key.runId})`
  const own = and(ofRun, eq(chats.ownerId, key.ownerId))
  const chat = tx.$with('chat').as(tx.select({ id: chats.id }).from(chats).where(own).for('update'))
  return tx
    .with(chat)
    .select(getTableColumns(runs))
    .from(runs)
    .innerJoin(chat, eq(chat.id, runs.chatId))
    .where(isRun(key))
    .for('update', { of: runs })
})

/** Adds items to the chat, each once, numbered without a gap. The chat is locked. */
export async function storeItems(
  tx: Tx,
  { ownerId, chatId, id: runId }: RunRow,
  items: readonly RunItemRecord[],
  status: 'ok' | 'failed' | 'partial' = 'ok',
): Promise<void> {
  if (items.length === 0) return
  const rows = items.map(({ id, item }) => ({ id, role: roleOf(item), item: storable(item) }))
  await insertItems(tx, { ownerId, chatId, runId, status, rows: JSON.stringify(rows) })
}

type NewItems = Pick<RunRow, 'ownerId' | 'chatId'> & { runId: string; status: string; rows: string }

const insertItems = prepared((tx, { ownerId, chatId, runId, status, rows }: NewItems) => {
  const added = tx.$with('added', { id: messages.id }).as(sql`
    SELECT id, role, item, count(*) OVER () AS size, row_number() OVER (ORDER BY position) AS position
    FROM ROWS FROM (jsonb_to_recordset(${rows}::jsonb) AS (id text, role text, item jsonb))
      WITH ORDINALITY AS given (id, role, item, position)
    WHERE id <> ALL (ARRAY(SELECT messages.id FROM messages WHERE messages.run_id = ${runId}))`)
  const numbered = tx.$with('numbered').as(
    tx
      .update(chats)
      .set({ nextSeq: sql`${chats.nextSeq} + (SELECT max(size) FROM added)`, updatedAt: sql`now()` })
      .where(and(eq(chats.id, chatId), eq(chats.ownerId, ownerId), sql`EXISTS (SELECT 1 FROM added)`))
      .returning({ nextSeq: chats.nextSeq }),
  )
  // In the order of the table's columns.
  return tx.with(added, numbered).insert(messages).select(sql`
    SELECT ${chatId}, next_seq - size + position - 1, ${ownerId}, ${runId}, id, role, item, ${status}, now()
    FROM added, numbered`)
})

function roleOf({ role, type }: Message): (typeof messages.$inferInsert)['role'] {
  if (role === 'user' || role === 'assistant') return role
  if (role === 'system' || role === 'developer') return 'system'
  return type?.endsWith('_output') ? 'tool' : 'assistant'
}
