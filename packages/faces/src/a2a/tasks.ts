import type { FastifyRequest } from 'fastify'
import type { FaceAgency, FaceDecision, FaceRun } from '../face-host.ts'
import { isTerminal, type ListTasks, type Message } from './protocol.ts'
import type { TaskProgress } from './task-progress.ts'

/** A request to an agency, whatever binding it came over. */
export type Asked = { readonly served: FaceAgency; readonly params: unknown; readonly request: FastifyRequest }

/** A task as it was when it was asked for, and the run that works on it. */
export type Task = {
  readonly id: string
  readonly contextId: string
  /** With which it began. */
  readonly message: Pick<Message, 'messageId' | 'role' | 'parts'>
  readonly run: FaceRun
  readonly progress: TaskProgress
  /** The number of the last event that `progress` has seen. */
  readonly seq: number
}

/** Tasks, each of the caller who has begun it. A task is a run, and a context a conversation. */
export interface TaskStore {
  /**
   * Starts a run for a message. It goes on whoever leaves.
   *
   * @throws A2aError there is no such context. @throws ServiceError
   */
  begin(asked: Asked, message: Message): Promise<Task>

  /** Goes on with a task that waits. @throws ServiceError a decision cannot be used. */
  decide(asked: Asked, task: Task, decisions: readonly FaceDecision[]): Promise<Task>

  /** Undefined: the caller has none of this id. */
  find(asked: Asked, id: string): Promise<Task | undefined>

  /** Waits until the task has ended or needs something of its client, or `signal` aborts. */
  settled(task: Task, signal: AbortSignal): Promise<Task>

  /** Ends a task that has not ended, and waits until it has, or `signal` aborts. */
  cancel(asked: Asked, task: Task, signal: AbortSignal): Promise<Task>

  /**
   * A page of the caller's tasks.
   *
   * @throws A2aError the page token is not one of this list.
   */
  list(asked: Asked, query: ListTasks): Promise<TaskPage>
}

export type TaskPage = {
  readonly tasks: readonly ViewedTask[]
  /** Empty on the last page. */
  readonly nextPageToken: string
  readonly totalSize: number
}

type ViewedTask = Omit<Task, 'run' | 'seq'>

type TaskView = { readonly historyLength?: number | null | undefined; readonly withArtifacts: boolean }

/** A task as clients see it. Its history is what it began with; what it has produced is its artifact. */
export function viewOf(task: ViewedTask, { historyLength, withArtifacts }: TaskView): object {
  const { id, contextId, progress, message } = task
  const { artifact } = progress
  return {
    id,
    contextId,
    status: progress.status,
    ...(withArtifacts && { artifacts: artifact ? [artifact] : [] }),
    ...(historyLength !== 0 && { history: [{ ...message, contextId, taskId: id }] }),
  }
}

/** Whether nothing follows any more. */
export const isOver = ({ progress }: Pick<Task, 'progress'>): boolean => isTerminal(progress.status.state)

export const isWaiting = ({ progress }: Pick<Task, 'progress'>): boolean =>
  progress.status.state === 'TASK_STATE_INPUT_REQUIRED'
