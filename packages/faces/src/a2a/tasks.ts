import { randomUUID } from 'node:crypto'
import type { FaceAgency, FaceRun } from '../face-host.ts'
import { invalidParam } from './a2a-error.ts'
import { isTerminal, type ListTasks, type Message } from './protocol.ts'
import { TaskProgress } from './task-progress.ts'

const MIB = 1_048_576

/** A task, and the run that works on it. */
export type Task = {
  readonly id: string
  readonly contextId: string
  /** Who may ask for it. */
  readonly owner: string
  readonly served: FaceAgency
  readonly run: FaceRun
  readonly progress: TaskProgress
  readonly message: Message
  /** The number of the last event that `progress` has seen. */
  seq: number
  /** Resolves when the state has changed next. */
  changed: PromiseWithResolvers<void>
}

type TaskView = { readonly historyLength?: number | null | undefined; readonly withArtifacts: boolean }

/** A task as clients see it. Its history is what it began with; what it has produced is its artifact. */
export function viewOf({ id, contextId, progress, message }: Task, { historyLength, withArtifacts }: TaskView): object {
  const { artifact } = progress
  return {
    id,
    contextId,
    status: progress.status,
    ...(withArtifacts && { artifacts: artifact ? [artifact] : [] }),
    ...(historyLength !== 0 && { history: [{ ...message, contextId, taskId: id }] }),
  }
}

type NewTask = Pick<Task, 'contextId' | 'owner' | 'served' | 'run' | 'message'>

type TasksOptions = {
  /** Default 10,000. */
  readonly maxTasks?: number
  /** Of all their messages and answers, about. Default 67,108,864 (64 MiB). */
  readonly maxBytes?: number
}

/**
 * The tasks of this process. When there are too many, those that ended first are forgotten first. Tasks that
 * are being worked on never are: the server's limit of runs holds for them.
 */
export class Tasks {
  readonly #limits: Required<TasksOptions>
  readonly #tasks = new Map<string, Task>()
  /** In the order in which they ended, with what they take. */
  readonly #ended = new Map<string, number>()
  #bytes = 0

  constructor(options: TasksOptions = {}) {
    this.#limits = { maxTasks: 10_000, maxBytes: 64 * MIB, ...options }
  }

  add(task: NewTask): Task {
    const id = randomUUID()
    const progress = new TaskProgress({ taskId: id, contextId: task.contextId })
    const added: Task = { ...task, id, progress, seq: 0, changed: Promise.withResolvers() }
    this.#tasks.set(id, added)
    return added
  }

  /** Undefined when there is none that this owner may see. */
  find(owner: string, id: string): Task | undefined {
    const task = this.#tasks.get(id)
    return task?.owner === owner ? task : undefined
  }

  /** Nothing changes any more: the task is kept while there is room. */
  end({ id, message, progress }: Task): void {
    const bytes = JSON.stringify([message, progress.artifact]).length
    this.#ended.set(id, bytes)
    this.#bytes += bytes
    for (const [oldest, size] of this.#ended) {
      if (this.#tasks.size <= this.#limits.maxTasks && this.#bytes <= this.#limits.maxBytes) return
      this.#tasks.delete(oldest)
      this.#ended.delete(oldest)
      this.#bytes -= size
    }
  }

  /**
   * A page of an owner's tasks, those that changed last first.
   *
   * @throws A2aError the page token is not ours.
   */
  list(owner: string, { contextId, status, statusTimestampAfter, pageSize, pageToken, ...view }: ListTasks): object {
    const size = pageSize ?? 50
    const after = statusTimestampAfter ? new Date(statusTimestampAfter).toISOString() : ''
    const all = [...this.#tasks.values()]
      .filter((task) => task.owner === owner)
      .filter((task) => contextId === undefined || task.contextId === contextId)
      .filter(({ progress }) => status === undefined || progress.status.state === status)
      .filter(({ progress }) => progress.status.timestamp >= after)
      .map((task) => ({ task, key: `${task.progress.status.timestamp} ${task.id}` }))
      .toSorted((a, b) => (a.key < b.key ? 1 : -1))
    const start = pageToken ? readToken(pageToken) : undefined
    const rest = start === undefined ? all : all.filter(({ key }) => key < start)
    const page = rest.slice(0, size)
    return {
      tasks: page.map(({ task }) =>
        viewOf(task, { historyLength: view.historyLength, withArtifacts: view.includeArtifacts }),
      ),
      nextPageToken: rest.length > size ? Buffer.from(page.at(-1)!.key).toString('base64url') : '',
      pageSize: size,
      totalSize: all.length,
    }
  }
}

/** Where a page ends: the time and the id of its last task. */
function readToken(token: string): string {
  const key = Buffer.from(token, 'base64url').toString()
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [\da-f-]{36}$/.test(key)) return key
  throw invalidParam('pageToken', 'is not one of this list')
}

/** Whether a message may still be sent to a task, or its updates followed. */
export const isOver = ({ progress }: Task): boolean => isTerminal(progress.status.state)
