import type { Message, Usage } from '@bureau/protocol'
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { chats, messages, usageEntries } from '../db/schema.ts'
import { storable } from '../db/storable.ts'
import type { RunFacts, RunKey } from './runs.repo.ts'

/** A complete item of a run. `id` is made by the runner (`newId('msg')`): repeated with it, the item is stored once. */
export type RunItemRecord = { readonly id: string; readonly item: Message }

/** One finished model call. `callSeq` counts the calls of a run from 1: repeated with it, the call is recorded once. */
export type ModelCall = {
  readonly callSeq: number
  readonly agent: string
  readonly model: string
  /** False: the price of the model is unknown, `total_cost` is 0. */
  readonly priced: boolean
  readonly usage: Usage
}

/** What a run has produced and is to be stored with one statement. `status` is that of the items. */
export type RunOutputRecord = {
  readonly items: readonly RunItemRecord[]
  readonly calls: readonly ModelCall[]
  readonly status?: 'ok' | 'failed' | 'cancelled'
}

/** The values of that statement. */
export type OutputValues = RunKey & {
  readonly status: string
  /** JSON. */
  readonly items: string
  readonly calls: string
}

export function outputValues({ items, calls, status = 'ok' }: RunOutputRecord): Omit<OutputValues, keyof RunKey> {
  return {
    status,
    items: JSON.stringify(items.map(({ id, item }) => ({ id, role: roleOf(item), item: storable(item) }))),
    calls: JSON.stringify(calls.map(entryOf)),
  }
}

/**
 * The parts of a statement that store the output of a run: each item once, numbered without a gap, and each call once.
 * The chat is locked; if there is none, nothing is stored.
 */
export function outputParts(tx: Tx, chatId: string | SQL, { ownerId, runId, status, items, calls }: OutputValues) {
  // Lists of values are in the order of the table's columns.
  const recorded = tx.$with('recorded').as(
    tx
      .insert(usageEntries)
      .select(
        sql`
      SELECT ${runId}, call_seq, ${ownerId}, agent, model, priced,
        input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_usd, now(), estimated
      FROM jsonb_to_recordset(${calls}::jsonb) AS (call_seq integer, agent text, model text, priced boolean,
        input_tokens bigint, cached_tokens bigint, cache_write_tokens bigint, output_tokens bigint,
        reasoning_tokens bigint, cost_usd numeric, estimated boolean)
      WHERE ${chatId}::text IS NOT NULL`,
      )
      .onConflictDoNothing(),
  )
  const added = tx.$with('added', { id: messages.id }).as(sql`
    SELECT id, role, item, row_number() OVER (ORDER BY position) AS position
    FROM ROWS FROM (jsonb_to_recordset(${items}::jsonb) AS (id text, role text, item jsonb))
      WITH ORDINALITY AS given (id, role, item, position)
    WHERE id <> ALL (ARRAY(SELECT messages.id FROM messages WHERE messages.run_id = ${runId}))`)
  const numbered = tx.$with('numbered').as(
    tx
      .update(chats)
      .set({ nextSeq: sql`${chats.nextSeq} + (SELECT count(*) FROM added)`, updatedAt: sql`now()` })
      .where(and(eq(chats.id, chatId), eq(chats.ownerId, ownerId), sql`EXISTS (SELECT 1 FROM added)`))
      .returning({ before: sql`${chats.nextSeq} - (SELECT count(*) FROM added)`.as('before') }),
  )
  const stored = tx.$with('stored').as(
    tx.insert(messages).select(sql`
      SELECT ${chatId}, before + position - 1, ${ownerId}, ${runId}, id, role, item, ${status}, now()
      FROM added, numbered`),
  )
  return [recorded, added, numbered, stored] as const
}

const insertOutput = prepared((tx, values: OutputValues & Pick<RunFacts, 'chatId'>) =>
  tx
    .with(...outputParts(tx, values.chatId, values))
    .select({ items: sql<number>`count(*)` })
    .from(sql`added`),
)

/** Adds items to the chat and calls to the usage, each once. The chat is locked. */
export async function storeOutput(
  tx: Tx,
  { ownerId, chatId, id: runId }: RunFacts,
  output: RunOutputRecord,
): Promise<void> {
  if (output.items.length + output.calls.length === 0) return
  await insertOutput(tx, { ownerId, chatId, runId, ...outputValues(output) })
}

const entryOf = ({ callSeq, agent, model, priced, usage }: ModelCall): object => ({
  call_seq: callSeq,
  agent,
  model,
  priced,
  input_tokens: usage.input_tokens,
  cached_tokens: usage.cached_tokens,
  cache_write_tokens: usage.cache_write_tokens,
  output_tokens: usage.output_tokens,
  reasoning_tokens: usage.reasoning_tokens ?? 0,
  cost_usd: usage.total_cost,
  estimated: usage.estimated ?? false,
})

/** Who says an item, as the chat has it. */
export function roleOf({ role, type }: Message): (typeof messages.$inferInsert)['role'] {
  if (role === 'user' || role === 'assistant') return role
  if (role === 'system' || role === 'developer') return 'system'
  return type?.endsWith('_output') ? 'tool' : 'assistant'
}
