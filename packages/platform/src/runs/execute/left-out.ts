import { and, asc, eq, gt, lt, sql } from 'drizzle-orm'
import { tenantOperation } from '../../db/operation.ts'
import { chats, messages } from '../../db/schema.ts'
import type { RunWriter } from '../../run-records/record-step.ts'
import { beginsTurn, bytesOf, type RunContext } from '../admit/read-run-context.ts'
import { historyBudget, type StoredMessage } from '../admit/run-context.repo.ts'

/** What is to be summed up before a run. */
export type LeftOut = {
  /** The part of it that is not sent any more, with a summary or without. */
  readonly unsent: readonly StoredMessage[]
  /** The number of its last message. */
  readonly upTo: number
}

/** So many messages at a time: a chat that was long before summaries is caught up with, run by run. */
const MAX_MESSAGES = 2_000

export const readLeftOut = tenantOperation(
  { source: import.meta.url, name: 'readLeftOut', lane: 'run', onlyReads: true },
  (tx, { ownerId, chatId, from, to }: { ownerId: string; chatId: string; from: number; to: number }) =>
    tx
      .select({
        seq: messages.seq,
        runId: messages.runId,
        role: messages.role,
        status: messages.status,
        item: messages.item,
      })
      .from(messages)
      .where(
        and(eq(messages.chatId, chatId), eq(messages.ownerId, ownerId), gt(messages.seq, from), lt(messages.seq, to)),
      )
      .orderBy(asc(messages.seq))
      .limit(MAX_MESSAGES),
)

/**
 * What is to be summed up; undefined while the chat fits into its budget.
 *
 * With what has not fitted in, the older half of what has: the next turns then have room, and many runs go by until a summary is
 * needed again.
 */
export async function findLeftOut(
  read: (range: { from: number; to: number }) => Promise<readonly StoredMessage[]>,
  { history, summarized, input, runId }: RunContext,
): Promise<LeftOut | undefined> {
  const [first] = history
  if (!first || first.seq === summarized.upTo + 1) return undefined
  const budget = historyBudget(input)
  const unsent = withinBytes(await read({ from: summarized.upTo, to: first.seq }), budget)
  const last = unsent.at(-1)
  if (!last) return undefined
  if (last.seq < first.seq - 1) return { unsent, upTo: last.seq }
  const older = history.slice(0, startOfLaterHalf(history, { runId, budget }))
  return { unsent, upTo: (older.at(-1) ?? last).seq }
}

function withinBytes(list: readonly StoredMessage[], budget: number): readonly StoredMessage[] {
  let bytes = 0
  const cut = list.findIndex((message, at) => (bytes += bytesOf(message)) > budget && at > 0)
  return cut < 0 ? list : list.slice(0, cut)
}

/** Where the turns begin that take no more than half of the budget; the message to answer is always among them. */
function startOfLaterHalf(
  history: readonly StoredMessage[],
  { runId, budget }: { readonly runId: string; readonly budget: number },
): number {
  let bytes = 0
  let start = history.findIndex((message) => message.runId === runId && beginsTurn(message))
  for (let at = history.length - 1; at >= 0; at--) {
    const message = history[at]!
    bytes += bytesOf(message)
    if (bytes > budget / 2) break
    if (beginsTurn(message) && at < start) start = at
  }
  return start
}

/** Keeps the summary of a chat up to a message, for the runs to come. Nothing is kept for a run that is another process's now. */
export const keepSummary = tenantOperation(
  { source: import.meta.url, name: 'keepSummary', lane: 'run' },
  async (tx, kept: RunWriter & { readonly summary: string; readonly upTo: number }): Promise<void> => {
    const { ownerId, runId, bootId, summary, upTo } = kept
    const chatOfRun = sql`(SELECT chat_id FROM runs WHERE id = ${runId} AND boot_id = ${bootId} AND state = 'running')`
    await tx
      .update(chats)
      .set({ summary, summarizedSeq: upTo })
      .where(and(eq(chats.ownerId, ownerId), eq(chats.id, chatOfRun), lt(chats.summarizedSeq, upTo)))
  },
)
