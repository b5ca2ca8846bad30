import { RunState } from '@bureau/framework'
import { ServiceError } from '@bureau/protocol'
import { and, desc, eq, gte, inArray, isNotNull, isNull, lt, ne, notInArray, or, type SQL, sql } from 'drizzle-orm'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { cutPage, olderThan, type Page, type PageRequest } from '../db/page.ts'
import { runs, runStates } from '../db/schema.ts'
import {
  EXCERPT_LENGTH,
  findRun,
  listAskedTexts,
  listRunItems,
  RUN_FACTS,
  type RunFacts,
  type RunKey,
} from './runs.repo.ts'
import { runViews } from './run-views.ts'
import { runOutput, type RunView } from './run-view.ts'

/**
 * What a caller may see: what belongs to these integrations (null: to all), and to one consumer alone when it is named. Nothing else
 * exists for it.
 */
export type Reach = { readonly integrationIds: readonly string[] | null; readonly consumerId?: string }

export const isSeen = (
  run: Pick<RunFacts, 'integrationId' | 'consumerId'>,
  { integrationIds, consumerId }: Reach,
): boolean =>
  (!integrationIds || integrationIds.includes(run.integrationId)) &&
  (consumerId === undefined || run.consumerId === consumerId)

/** With `output`, also what the run produced so far. @throws ServiceError `run_not_found` */
export const getRun = tenantOperation(
  { source: import.meta.url, name: 'getRun', lane: 'interactive', onlyReads: true },
  async (tx, args: RunKey & Reach & { output: boolean }): Promise<RunView> => {
    const run = await findRun(tx, args)
    if (!run || !isSeen(run, args)) throw new ServiceError('run_not_found')
    const [view] = await viewsOf(tx, args, [run])
    if (!view) throw new Error('a run has a view')
    return view
  },
)

/** Whether its chat has gone on since. What has failed, or was cancelled, does not count. */
export const isFollowed = tenantOperation(
  { source: import.meta.url, name: 'isFollowed', lane: 'interactive', onlyReads: true },
  async (tx, { ownerId, runId, chatId }: RunKey & { chatId: string }): Promise<boolean> => {
    const isCandidate = or(eq(runs.id, runId), notInArray(runs.state, ['failed', 'cancelled']))
    const [last] = await tx
      .select({ id: runs.id })
      .from(runs)
      .where(and(eq(runs.chatId, chatId), eq(runs.ownerId, ownerId), isCandidate))
      .orderBy(desc(runs.createdAt), desc(runs.id))
      .limit(1)
    return last?.id !== runId
  },
)

type Shown = { readonly ownerId: string; readonly output: boolean }

/** With the beginning of what the user said and, with `output`, what the run produced so far. */
async function viewsOf(tx: Tx, { ownerId, output }: Shown, rows: readonly RunFacts[]): Promise<RunView[]> {
  const views = await runViews(tx, ownerId, rows)
  const runIds = rows.map(({ id }) => id)
  const texts = await listAskedTexts(tx, { ownerId, runIds, length: EXCERPT_LENGTH })
  const asked = views.map((view) => ({ ...view, message: texts.get(view.runId) ?? null }))
  if (!output) return asked
  const items = await listRunItems(tx, { ownerId, runIds })
  const states = await readStates(tx, { ownerId, runIds: rows.filter(isWaiting).map(({ id }) => id) })
  return asked.map((view) => {
    const { runId, status } = view
    return { ...view, ...runOutput(items.get(runId) ?? [], { status, waiting: states.get(runId) }) }
  })
}

const isWaiting = ({ state }: RunFacts): boolean => state === 'waiting'

type Runs = { readonly ownerId: string; readonly runIds: readonly string[] }

/** How far runs have come; those whose state is of another version of the server are left out. */
async function readStates(tx: Tx, { ownerId, runIds }: Runs): Promise<Map<string, RunState | undefined>> {
  if (runIds.length === 0) return new Map()
  const kept = await tx
    .select({ runId: runStates.runId, state: runStates.state })
    .from(runStates)
    .where(and(inArray(runStates.runId, [...runIds]), eq(runStates.ownerId, ownerId)))
  return new Map(kept.map(({ runId, state }) => [runId, RunState.safeParse(JSON.parse(state)).data]))
}

type RunFilter = {
  readonly integrationId?: string
  readonly chatId?: string
  readonly consumerId?: string
  readonly status?: RunView['status']
  /** RFC 3339, included. */
  readonly createdAfter?: string
  /** RFC 3339, excluded. */
  readonly createdBefore?: string
  /** When it came to be as it is: RFC 3339, included. */
  readonly changedAfter?: string
  /** Of those that have failed, only such as a guardrail has stopped, or only the others. */
  readonly isRefused?: boolean
}

type RunsOfOwner = Reach & RunFilter & { readonly ownerId: string }

const isListed = (args: RunsOfOwner): SQL | undefined =>
  and(
    eq(runs.ownerId, args.ownerId),
    args.integrationIds ? inArray(runs.integrationId, [...args.integrationIds]) : undefined,
    ...filtersOf(args),
  )

/** What users have said with which these runs began, as their chats keep it, and since when those of them wait that do. */
export const readAsked = tenantOperation(
  { source: import.meta.url, name: 'readAsked', lane: 'interactive', onlyReads: true },
  async (tx, { ownerId, runIds }: { ownerId: string; runIds: readonly string[] }) => {
    const waiting = await tx
      .select({ id: runs.id, since: runs.waitingSince })
      .from(runs)
      .where(and(eq(runs.ownerId, ownerId), inArray(runs.id, [...runIds]), isNotNull(runs.waitingSince)))
    return {
      texts: await listAskedTexts(tx, { ownerId, runIds }),
      waitingSince: new Map(waiting.map(({ id, since }) => [id, since?.toISOString()])),
    }
  },
)

const MOST_COUNTED = 10_000

/** How many there are, up to 10,000. */
export const countRuns = tenantOperation(
  { source: import.meta.url, name: 'countRuns', lane: 'interactive', onlyReads: true },
  async (tx, args: RunsOfOwner): Promise<number> =>
    tx.$count(tx.select({ id: runs.id }).from(runs).where(isListed(args)).limit(MOST_COUNTED).as('counted')),
)

/** Those first that began last, or that changed last; with `output`, also what they produced so far. */
type ListedBy = { readonly by?: 'beginning' | 'change'; readonly output?: boolean }

export const listRuns = tenantOperation(
  { source: import.meta.url, name: 'listRuns', lane: 'interactive', onlyReads: true },
  async (tx, args: PageRequest & RunsOfOwner & ListedBy): Promise<Page<RunView>> => {
    const { ownerId, limit, after, by = 'beginning', output = false } = args
    const time = by === 'change' ? changedAt : runs.createdAt
    const rows = await tx
      .select(RUN_FACTS)
      .from(runs)
      .where(and(isListed(args), olderThan(time, runs.id, after)))
      .orderBy(desc(time), desc(runs.id))
      .limit(limit + 1)
    const timeOf = by === 'change' ? changeOf : (row: RunFacts) => row.createdAt
    const page = cutPage(rows, limit, (row) => [timeOf(row).toISOString(), row.id])
    return { items: await viewsOf(tx, { ownerId, output }, page.items), next: page.next }
  },
)

function filtersOf(filter: RunFilter): (SQL | undefined)[] {
  const { integrationId, chatId, consumerId, status, createdAfter, createdBefore, changedAfter, isRefused } = filter
  return [
    integrationId === undefined ? undefined : eq(runs.integrationId, integrationId),
    chatId === undefined ? undefined : eq(runs.chatId, chatId),
    consumerId === undefined ? undefined : eq(runs.consumerId, consumerId),
    status === undefined ? undefined : hasStatus(status),
    createdAfter === undefined ? undefined : gte(runs.createdAt, new Date(createdAfter)),
    createdBefore === undefined ? undefined : lt(runs.createdAt, new Date(createdBefore)),
    changedAfter === undefined ? undefined : gte(changedAt, new Date(changedAfter).toISOString()),
    isRefused === undefined ? undefined : (isRefused ? eq : ne)(runs.errorCode, 'guardrail_tripped'),
  ]
}

/** As its index has it. */
const changedAt = sql`CASE WHEN ${runs.finishedAt} IS NOT NULL THEN ${runs.finishedAt} WHEN ${runs.waitingSince} IS NOT NULL
  THEN ${runs.waitingSince} WHEN ${runs.startedAt} IS NOT NULL THEN ${runs.startedAt} ELSE ${runs.createdAt} END`

const changeOf = ({ finishedAt, waitingSince, startedAt, createdAt }: RunFacts): Date =>
  finishedAt ?? waitingSince ?? startedAt ?? createdAt

function hasStatus(status: RunView['status']): SQL | undefined {
  switch (status) {
    case 'queued':
      return and(eq(runs.state, 'reserved'), isNull(runs.cancelRequestedAt), isNull(runs.finishedAt))
    case 'running':
      return and(eq(runs.state, 'running'), isNull(runs.cancelRequestedAt), isNull(runs.finishedAt))
    case 'waiting':
      return and(eq(runs.state, 'waiting'), isNull(runs.cancelRequestedAt), isNull(runs.finishedAt))
    case 'cancelling':
      return and(
        inArray(runs.state, ['reserved', 'running', 'waiting']),
        isNotNull(runs.cancelRequestedAt),
        isNull(runs.finishedAt),
      )
    case 'completed':
    case 'failed':
    case 'cancelled':
      return eq(runs.state, status)
  }
}
