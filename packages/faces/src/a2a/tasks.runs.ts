import { type RunEnded, ServiceError } from '@bureau/protocol'
import { beginRun, BY_TOKEN, type Remedies } from '../begin.ts'
import { type AskedRun, type FaceDecision, type FaceHost, type FaceRun } from '../face-host.ts'
import { asUnknownContext, invalidParam } from './a2a-error.ts'
import { isSettled, type ListTasks, type Message } from './protocol.ts'
import { toInput } from './read-message.ts'
import { TaskProgress } from './task-progress.ts'
import type { Asked, Task, TaskPage, TaskStore } from './tasks.ts'

/** What a server has recorded of a run that is a task. */
export type RecordedTask = {
  readonly runId: string
  readonly conversation: string
  /** What the user has said. */
  readonly message: string
  /** When it came to be as it is, in ISO 8601. */
  readonly changedAt: string
  /** False: nobody works on it yet. */
  readonly isBegun: boolean
  /** How it ended, or that it waits; null while it is worked on. */
  readonly ended: RunEnded | null
}

/** The runs of a caller with an agency, where a server records them. */
export interface TaskRecords {
  /** Undefined: the caller has none of this id. */
  find(asked: Asked, runId: string): Promise<RecordedTask | undefined>

  /**
   * A page of them, the newest first. `pageToken` is that of the page before.
   *
   * @throws ServiceError `invalid_cursor`
   */
  list(
    asked: Asked,
    query: ListTasks,
  ): Promise<{ readonly tasks: readonly RecordedTask[]; readonly nextPageToken: string; readonly totalSize: number }>
}

/** The tasks of a server that records its runs: a task has the id of its run, a context that of its conversation. */
export class RunTasks implements TaskStore {
  readonly #host: FaceHost
  readonly #records: TaskRecords

  constructor(host: FaceHost, records: TaskRecords) {
    this.#host = host
    this.#records = records
  }

  async begin(asked: Asked, message: Message): Promise<Task> {
    const { contextId } = message
    const input = toInput(message)
    const conversation = contextId !== undefined && { conversation: contextId }
    const run = await this.#start(asked, { input: { message: input, history: [] }, decisions: [], ...conversation })
    const progress = new TaskProgress({ taskId: run.runId, contextId: run.conversation! }, asked.served)
    return { id: run.runId, contextId: run.conversation!, message, run, progress, seq: 0 }
  }

  async decide(asked: Asked, task: Task, decisions: readonly FaceDecision[]): Promise<Task> {
    const { id, contextId } = task
    const run = await this.#start(asked, { input: { message: [], history: [] }, decisions, continues: id })
    const progress = new TaskProgress({ taskId: id, contextId }, asked.served)
    progress.goOn()
    return { ...task, run, progress, seq: run.after }
  }

  async find(asked: Asked, id: string): Promise<Task | undefined> {
    const record = await this.#records.find(asked, id)
    const run = record && (await this.#host.find(asked.request, { served: asked.served, runId: id }))
    if (!run) return undefined
    const task = { ...viewedTask(asked, record), run }
    // Who follows a task that waits is shown once more for what.
    if (record.ended) return { ...task, seq: Math.max(0, run.head - LAST_EVENTS) }
    return { ...task, seq: await replay(task.progress, run) }
  }

  async settled(task: Task, signal: AbortSignal): Promise<Task> {
    if (isSettled(task.progress.status.state)) return task
    const progress = task.progress.copy()
    let { seq } = task
    try {
      for await (const { first, events } of task.run.read(task.seq, signal)) {
        for (const event of events) progress.apply(event)
        seq = first + events.length - 1
        if (isSettled(progress.status.state)) break
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
    return { ...task, progress, seq }
  }

  async cancel(asked: Asked, { id }: Task): Promise<Task> {
    await this.#host.cancel(asked.request, { served: asked.served, runId: id })
    return (await this.find(asked, id))!
  }

  async list(asked: Asked, query: ListTasks): Promise<TaskPage> {
    try {
      const { tasks, ...page } = await this.#records.list(asked, query)
      return { tasks: tasks.map((record) => viewedTask(asked, record)), ...page }
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== 'invalid_cursor') throw error
      throw invalidParam('pageToken', 'is not one of this list')
    }
  }

  async #start(
    { request, served }: Asked,
    run: Pick<AskedRun, 'input' | 'decisions' | 'continues' | 'conversation'>,
  ): Promise<FaceRun> {
    try {
      return await beginRun({ host: this.#host, remedies: REMEDIES }, request, { ...run, served, kept: true })
    } catch (error) {
      throw asUnknownContext(error)
    }
  }
}

const REMEDIES: Remedies = {
  consumer: BY_TOKEN,
  waiting: (taskId) => `Send the decision with taskId ${JSON.stringify(taskId)}, or end that task with CancelTask.`,
}

/** That of a run's end, and that of its log. */
const LAST_EVENTS = 2

function viewedTask(
  { served }: Asked,
  { runId, conversation, message, changedAt, isBegun, ended }: RecordedTask,
): Omit<Task, 'run' | 'seq'> {
  const progress = new TaskProgress({ taskId: runId, contextId: conversation }, served, () => changedAt)
  if (ended) progress.apply(ended)
  else if (isBegun) progress.goOn()
  const parts = [{ text: message }]
  return {
    id: runId,
    contextId: conversation,
    message: { messageId: `${runId}-user`, role: 'ROLE_USER', parts },
    progress,
  }
}

/** Brings the progress of a run that is worked on to where it is. @returns The number of the last event. */
async function replay(progress: TaskProgress, { read, head }: FaceRun): Promise<number> {
  let seq = 0
  if (head === 0) return seq
  for await (const { first, events } of read(0, new AbortController().signal)) {
    for (const event of events) progress.apply(event)
    seq = first + events.length - 1
    if (seq >= head) break
  }
  return seq
}
