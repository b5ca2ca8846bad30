import type { AskedTask, ListTasks, RecordedTask, TaskRecords } from '@bureau/faces'
import { type ApprovalRequest, type RunEnded, type RunErrorCode, ServiceError } from '@bureau/protocol'
import { reachOf } from '../caller.ts'
import type { Platform } from '../context.ts'
import { callerOf } from '../http/callers.ts'
import { type CursorBinding, decodeCursor, encodeCursor } from '../http/cursor.ts'
import { countRuns, getRun, listRuns, readAsked } from '../run-records/read-runs.ts'
import type { RunView } from '../run-records/run-view.ts'
import { readWaitingCalls } from '../runs/approve/decide-approvals.ts'
import { isAtRest } from '../runs/follow-run.ts'

const DEFAULT_SIZE = 50

/** The runs of the platform as tasks: all of an integration that the caller may see, whichever way they began. */
export class PlatformTasks implements TaskRecords {
  readonly #platform: Platform

  constructor(platform: Platform) {
    this.#platform = platform
  }

  async find({ served, request }: AskedTask, runId: string): Promise<RecordedTask | undefined> {
    const reach = reachOf(callerOf(request, true))
    const run = await this.#platform.store.db.run(getRun, { ...reach, runId, output: true }).catch(orNone)
    if (run?.apiIntegrationId !== served.name) return undefined
    const [task] = await this.#tasksOf(reach.ownerId, [run])
    return task
  }

  async list({ served, request }: AskedTask, query: ListTasks): ReturnType<TaskRecords['list']> {
    const { store } = this.#platform
    const reach = reachOf(callerOf(request, true))
    const { contextId, status, statusTimestampAfter: changedAfter, pageSize, pageToken } = query
    const wanted = status === undefined ? {} : STATUSES[status]
    if (!wanted) return { tasks: [], nextPageToken: '', totalSize: 0 }
    const filter = {
      ...reach,
      ...wanted,
      integrationId: served.name,
      ...(contextId !== undefined && { chatId: contextId }),
      ...(changedAfter != null && { changedAfter }),
    }
    const filters = { integrationId: served.name, contextId, status, changedAfter }
    const binding: CursorBinding = { ownerId: reach.ownerId, route: 'a2a', filters }
    const after = pageToken ? decodeCursor(store.serverKey, binding, pageToken) : null
    const limit = pageSize ?? DEFAULT_SIZE
    const output = query.includeArtifacts
    const { items, next } = await store.db.run(listRuns, { ...filter, by: 'change', after, limit, output })
    return {
      tasks: await this.#tasksOf(reach.ownerId, items),
      nextPageToken: next ? encodeCursor(store.serverKey, binding, next) : '',
      totalSize: await store.db.run(countRuns, filter),
    }
  }

  async #tasksOf(ownerId: string, runs: readonly RunView[]): Promise<RecordedTask[]> {
    const { db } = this.#platform.store
    const { texts, waitingSince } = await db.run(readAsked, { ownerId, runIds: runs.map(({ runId }) => runId) })
    const waiting = runs.filter(({ status }) => status === 'waiting')
    const approvals = new Map<string, readonly ApprovalRequest[]>()
    for (const { runId } of waiting) approvals.set(runId, await db.run(readWaitingCalls, { ownerId, runId }))
    return runs.map((run) => {
      const { runId, chatId: conversation, status, createdAt, startedAt, finishedAt } = run
      const changedAt = finishedAt ?? waitingSince.get(runId) ?? startedAt ?? createdAt
      const ended = endOf(run, approvals.get(runId))
      return { runId, conversation, message: texts.get(runId) ?? '', changedAt, isBegun: status !== 'queued', ended }
    })
  }
}

/** Which runs have a state: undefined, none has. Whether a run waits for a sign-in, no record says. */
const STATUSES: Readonly<
  Record<NonNullable<ListTasks['status']>, { status: RunView['status']; isRefused?: boolean } | undefined>
> = {
  TASK_STATE_SUBMITTED: { status: 'queued' },
  TASK_STATE_WORKING: { status: 'running' },
  TASK_STATE_INPUT_REQUIRED: { status: 'waiting' },
  TASK_STATE_AUTH_REQUIRED: undefined,
  TASK_STATE_COMPLETED: { status: 'completed' },
  TASK_STATE_CANCELED: { status: 'cancelled' },
  TASK_STATE_FAILED: { status: 'failed', isRefused: false },
  TASK_STATE_REJECTED: { status: 'failed', isRefused: true },
}

/** What is not there and what others have begun look alike. */
function orNone(error: unknown): undefined {
  if (!(error instanceof ServiceError) || error.code !== 'run_not_found') throw error
}

function endOf(run: RunView, approvals: readonly ApprovalRequest[] | undefined): RunEnded | null {
  const { runId, status, error, newMessages = [], usage } = run
  if (!isAtRest(status)) return null
  return {
    type: 'run.ended',
    run_id: runId,
    status,
    new_messages: newMessages,
    usage,
    usage_by_model: [],
    output: null,
    error: error && { code: error.code as RunErrorCode, message: error.message },
    ...(approvals && { approvals }),
  }
}
