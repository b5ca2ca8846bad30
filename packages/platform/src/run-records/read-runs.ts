import { RunState } from '@bureau/framework'
import { ServiceError } from '@bureau/protocol'
import { and, desc, eq, gte, inArray, isNotNull, isNull, lt, type SQL } from 'drizzle-orm'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { olderThan, type Page, type PageRequest, toPage } from '../db/page.ts'
import { runs, runStates } from '../db/schema.ts'
import { findRun, listRunItems, type RunKey, type RunRow } from './runs.repo.ts'
import { runViews } from './run-views.ts'
import { runOutput, type RunView } from './run-view.ts'

/** What a restricted API key or a consumer may see, as for chats. A run of others does not exist for them. */
export type Reach = { readonly integrationIds: readonly string[] | null; readonly consumerId?: string }

export const isSeen = (run: RunRow, { integrationIds, consumerId }: Reach): boolean =>
  (!integrationIds || integrationIds.includes(run.integrationId)) &&
  (consumerId === undefined || run.consumerId === consumerId)

/** With `output`, also what the run produced so far. @throws ServiceError `run_not_found` */
export const getRun = tenantOperation(
  { source: import.meta.url, name: 'getRun', lane: 'interactive' },
  async (tx, args: RunKey & Reach & { output: boolean }): Promise<RunView> => {
    const run = await findRun(tx, args)
    if (!run || !isSeen(run, args)) throw new ServiceError('run_not_found')
    const [view] = await runViews(tx, args.ownerId, [run])
    if (!view) throw new Error('a run has a view')
    if (!args.output) return view
    const waiting = run.state === 'waiting' ? await readState(tx, args) : undefined
    return { ...view, ...runOutput(await listRunItems(tx, args), { status: view.status, waiting }) }
  },
)

/** Undefined too for a state of another version of the server. */
async function readState(tx: Tx, { ownerId, runId }: RunKey): Promise<RunState | undefined> {
  const [kept] = await tx
    .select({ state: runStates.state })
    .from(runStates)
    .where(and(eq(runStates.runId, runId), eq(runStates.ownerId, ownerId)))
  return kept && RunState.safeParse(JSON.parse(kept.state)).data
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
}

/** Newest first. */
export const listRuns = tenantOperation(
  { source: import.meta.url, name: 'listRuns', lane: 'interactive' },
  async (tx, args: PageRequest & Reach & RunFilter & { ownerId: string }): Promise<Page<RunView>> => {
    const { ownerId, limit, after, integrationIds } = args
    const rows = await tx
      .select()
      .from(runs)
      .where(
        and(
          eq(runs.ownerId, ownerId),
          integrationIds ? inArray(runs.integrationId, [...integrationIds]) : undefined,
          ...filtersOf(args),
          olderThan(runs.createdAt, runs.id, after),
        ),
      )
      .orderBy(desc(runs.createdAt), desc(runs.id))
      .limit(limit + 1)
    const page = toPage(
      rows,
      limit,
      (row) => row,
      (row) => [row.createdAt.toISOString(), row.id],
    )
    return { items: await runViews(tx, ownerId, page.items), next: page.next }
  },
)

function filtersOf(filter: RunFilter): (SQL | undefined)[] {
  const { integrationId, chatId, consumerId, status, createdAfter, createdBefore } = filter
  return [
    integrationId === undefined ? undefined : eq(runs.integrationId, integrationId),
    chatId === undefined ? undefined : eq(runs.chatId, chatId),
    consumerId === undefined ? undefined : eq(runs.consumerId, consumerId),
    status === undefined ? undefined : hasStatus(status),
    createdAfter === undefined ? undefined : gte(runs.createdAt, new Date(createdAfter)),
    createdBefore === undefined ? undefined : lt(runs.createdAt, new Date(createdBefore)),
  ]
}

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
