import type { Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { usageEntries } from '../db/schema.ts'
import { debitRun } from '../members/debit-allowance.ts'
import type { HeldRun, ModelCall } from './run-progress.repo.ts'

/** Records finished model calls and charges them, each once. Member and period are locked. */
export async function chargeCalls(tx: Tx, held: HeldRun, calls: readonly ModelCall[]): Promise<void> {
  const { run, member } = held
  let { period } = held
  for (const { callSeq, agent, model, priced, usage } of calls) {
    const [added] = await insertEntry(tx, {
      runId: run.id,
      callSeq,
      ownerId: run.ownerId,
      agent,
      model,
      priced,
      inputTokens: usage.input_tokens,
      cachedTokens: usage.cached_tokens,
      cacheWriteTokens: usage.cache_write_tokens,
      outputTokens: usage.output_tokens,
      reasoningTokens: usage.reasoning_tokens ?? 0,
      costUsd: usage.total_cost,
    })
    if (!added || !member || !period) continue
    const amounts = { messages: 0, tokens: usage.total_tokens, costMicro: microOf(usage.total_cost) }
    period = await debitRun(tx, { run, member, period, what: `call:${callSeq}` }, amounts)
  }
}

type NewEntry = Required<Omit<typeof usageEntries.$inferInsert, 'createdAt'>>

/** Nothing: the call was recorded before. */
const insertEntry = prepared((tx, entry: NewEntry) => {
  const { runId, callSeq, ownerId, agent, model, priced } = entry
  const { inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens, costUsd } = entry
  const tokens = { inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens }
  return tx
    .insert(usageEntries)
    .values({ runId, callSeq, ownerId, agent, model, priced, ...tokens, costUsd })
    .onConflictDoNothing()
    .returning({ callSeq: usageEntries.callSeq })
})

/** Whole micro-dollars, rounded up; float noise below a ten-thousandth of one does not count. */
const microOf = (usd: number): number => Math.ceil(Number((usd * 1_000_000).toFixed(4)))
