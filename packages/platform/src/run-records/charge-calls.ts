import type { Tx } from '../db/operation.ts'
import { debitRun } from '../members/debit-and-refund.ts'
import type { HeldRun } from './hold-run.ts'
import type { ModelCall } from './run-output.repo.ts'

/** Charges finished model calls to the consumer that the run belongs to, each once. Member and period are locked. */
export async function chargeCalls(tx: Tx, held: HeldRun, calls: readonly ModelCall[]): Promise<void> {
  const { run, member } = held
  let { period } = held
  if (!member || !period) return
  for (const { callSeq, usage } of calls) {
    const amounts = { messages: 0, tokens: usage.total_tokens, costMicro: microOf(usage.total_cost) }
    period = await debitRun(tx, { run, member, period, what: `call:${callSeq}` }, amounts)
  }
}

/** Whole micro-dollars, rounded up; float noise below a ten-thousandth of one does not count. */
const microOf = (usd: number): number => Math.ceil(Number((usd * 1_000_000).toFixed(4)))
