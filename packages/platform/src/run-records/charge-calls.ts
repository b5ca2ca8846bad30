import type { Tx } from '../db/operation.ts'
import { together } from '../db/together.ts'
import { type ChargedRun, debitRun } from '../members/debit-and-refund.ts'
import type { Limits } from '../members/allowance-policy.ts'
import type { ModelCall } from './run-output.repo.ts'

/** Charges finished model calls to the consumer that the run belongs to, if it does to one, each once. The member is locked. */
export async function chargeCalls(
  tx: Tx,
  { run, member }: { readonly run: ChargedRun; readonly member: Limits | null },
  calls: readonly ModelCall[],
): Promise<void> {
  if (run.memberId === null || calls.length === 0) return
  if (!member) throw new Error('the member of a run vanished')
  const charges = calls.map(({ callSeq, usage }) => {
    const amounts = { messages: 0, tokens: usage.total_tokens, costMicro: microOf(usage.total_cost) }
    return debitRun(tx, { run, member, what: `call:${callSeq}` }, amounts)
  })
  await together(...charges)
}

/** Whole micro-dollars, rounded up; float noise below a ten-thousandth of one does not count. */
const microOf = (usd: number): number => Math.ceil(Number((usd * 1_000_000).toFixed(4)))
