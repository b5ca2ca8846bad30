import { addUsage, type Message, NO_USAGE, type Usage } from '@bureau/protocol'
import { and, asc, eq, getTableColumns, inArray, isNull, lt, not, sql } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { chats, messages, runs, usageEntries } from '../db/schema.ts'

export type RunRow = typeof runs.$inferSelect
/** A run without what was asked, which never changes and may be long. */
export type RunFacts = Omit<RunRow, 'input' | 'contextEnc' | 'fingerprint' | 'textOnly'>
export type RunKey = { readonly ownerId: string; readonly runId: string }

export const isRun = ({ ownerId, runId }: RunKey) => and(eq(runs.id, runId), eq(runs.ownerId, ownerId))

const { input: _i, contextEnc: _c, fingerprint: _f, textOnly: _t, ...factColumns } = getTableColumns(runs)
/** The columns of `RunFacts`. */
export const RUN_FACTS = factColumns

const selectRun = prepared((tx, key: RunKey) => tx.select().from(runs).where(isRun(key)))

export async function findRun(tx: Tx, key: RunKey): Promise<RunRow | undefined> {
  const [row] = await selectRun(tx, key)
  return row
}

/** By run; those without a finished model call are left out. */
export async function sumUsage(tx: Tx, ownerId: string, runIds: readonly string[]): Promise<Map<string, Usage>> {
  const rows = await tx
    .select({ runId: usageEntries.runId, ...USAGE_SUMS })
    .from(usageEntries)
    .where(and(eq(usageEntries.ownerId, ownerId), inArray(usageEntries.runId, [...runIds])))
    .groupBy(usageEntries.runId)
  return new Map(rows.map(({ runId, ...sums }) => [runId, toUsage(sums)]))
}

const sumFirstCalls = prepared((tx, { ownerId, runId, before }: RunKey & { before: number }) =>
  tx
    .select(USAGE_SUMS)
    .from(usageEntries)
    .where(and(eq(usageEntries.runId, runId), eq(usageEntries.ownerId, ownerId), lt(usageEntries.callSeq, before))),
)

/** More calls than any run makes. */
const AFTER_ALL = 2 ** 31 - 1

/** What is recorded of a run's cost before these calls of it, some of which may be recorded too. */
export async function usageBefore(
  tx: Tx,
  key: RunKey,
  [first]: readonly { readonly callSeq: number }[],
): Promise<Usage> {
  const before = first?.callSeq ?? AFTER_ALL
  if (before === 1) return NO_USAGE
  const [sums] = await sumFirstCalls(tx, { ...key, before })
  return sums ? toUsage(sums) : NO_USAGE
}

/** The sum over calls. */
export function sumCalls(calls: readonly { readonly usage: Usage }[]): Usage {
  const sums = calls.reduce((sum, { usage }) => addUsage(sum, usage), NO_USAGE)
  return { ...sums, request_count: calls.length, total_tokens: sums.input_tokens + sums.output_tokens }
}

const sum = (column: unknown) => sql<number>`coalesce(sum(${column}), 0)`.mapWith(Number)

/** Sums over usage entries; `toUsage` makes a usage of them. */
export const USAGE_SUMS = {
  requests: sql<number>`count(*)`.mapWith(Number),
  input: sum(usageEntries.inputTokens),
  cached: sum(usageEntries.cachedTokens),
  cacheWrite: sum(usageEntries.cacheWriteTokens),
  output: sum(usageEntries.outputTokens),
  reasoning: sum(usageEntries.reasoningTokens),
  cost: sum(usageEntries.costUsd),
  estimated: sql<boolean>`coalesce(bool_or(${usageEntries.estimated}), false)`,
}

type UsageSums = { readonly [name in Exclude<keyof typeof USAGE_SUMS, 'estimated'>]: number } & {
  readonly estimated: boolean
}

export function toUsage(sums: UsageSums): Usage {
  return {
    request_count: sums.requests,
    cached_tokens: sums.cached,
    cache_write_tokens: sums.cacheWrite,
    input_tokens: sums.input,
    output_tokens: sums.output,
    total_tokens: sums.input + sums.output,
    total_cost: sums.cost,
    ...(sums.reasoning > 0 && { reasoning_tokens: sums.reasoning }),
    ...(sums.estimated && { estimated: true }),
  }
}

/** What agents tell each other has the role of a user too. */
export const isNotFromUser = sql`(${messages.role} <> 'user' OR ${messages.item}->>'callerAgent' IS NOT NULL)`

/** Branches of the chat hold copies. */
const isInItsChat = and(eq(runs.id, messages.runId), eq(runs.chatId, messages.chatId))

/** The text of a message. */
export const askedText = sql<string>`CASE jsonb_typeof(${messages.item}->'content')
  WHEN 'array' THEN (SELECT coalesce(string_agg(part->>'text', ''), '') FROM jsonb_array_elements(${messages.item}->'content') part)
  ELSE coalesce(${messages.item}->>'content', '') END`

/** How much of a message a list of runs or chats shows, in characters. */
export const EXCERPT_LENGTH = 200

/** What users have said with which runs began: the text that their chats keep, or so many characters of it, by run. */
export async function listAskedTexts(
  tx: Tx,
  { ownerId, runIds, length }: { ownerId: string; runIds: readonly string[]; length?: number },
): Promise<Map<string, string>> {
  if (runIds.length === 0) return new Map()
  const rows = await tx
    .select({
      runId: messages.runId,
      text: length === undefined ? askedText : sql<string>`left(${askedText}, ${length})`,
    })
    .from(messages)
    .innerJoin(runs, isInItsChat)
    .innerJoin(chats, and(eq(chats.id, messages.chatId), isNull(chats.deletedAt)))
    .where(and(eq(messages.ownerId, ownerId), inArray(messages.runId, [...runIds]), not(isNotFromUser)))
  return new Map(rows.map(({ runId, text }) => [runId, text]))
}

/** What users have said with which chats began: so many characters of it, by chat. */
export async function listFirstTexts(
  tx: Tx,
  { ownerId, chatIds, length }: { ownerId: string; chatIds: readonly string[]; length: number },
): Promise<Map<string, string>> {
  const rows = await tx
    .select({ chatId: messages.chatId, text: sql<string>`left(${askedText}, ${length})` })
    .from(messages)
    .where(
      and(
        eq(messages.ownerId, ownerId),
        inArray(messages.chatId, [...chatIds]),
        eq(messages.seq, 1),
        not(isNotFromUser),
      ),
    )
  return new Map(rows.map(({ chatId, text }) => [chatId, text]))
}

/** What runs added to their chats after the user's messages, in order, by run. */
export async function listRunItems(
  tx: Tx,
  { ownerId, runIds }: { ownerId: string; runIds: readonly string[] },
): Promise<Map<string, Message[]>> {
  if (runIds.length === 0) return new Map()
  const rows = await tx
    .select({ runId: messages.runId, item: messages.item })
    .from(messages)
    .innerJoin(runs, isInItsChat)
    .where(and(inArray(messages.runId, [...runIds]), eq(messages.ownerId, ownerId), isNotFromUser))
    .orderBy(asc(messages.seq))
  const byRun = Map.groupBy(rows, ({ runId }) => runId)
  return new Map([...byRun].map(([runId, items]) => [runId, items.map(({ item }) => item)]))
}
