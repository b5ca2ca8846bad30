import { EgressError, encodeBatches } from '@bureau/runtime'
import { A2aError, invalidParam, parseParams } from './a2a-error.ts'
import { CreatePush, GetTask, ListPushes, ListTasks, PushOf, SendMessage, TaskOf } from './protocol.ts'
import type { PushConfigs } from './push.ts'
import { decisionsOf } from './read-message.ts'
import { type Asked, isOver, isWaiting, type Task, type TaskStore, viewOf } from './tasks.ts'

/** A stream of `StreamResponse`s, each as JSON. `frame` makes of one what goes over the wire. */
export type Updates = (frame: (json: string) => string, signal: AbortSignal) => AsyncIterableIterator<string, void>

/** The operations of the protocol (specification 3.1) over the tasks of a server. */
export class A2aOperations {
  readonly #tasks: TaskStore
  readonly #pushes: PushConfigs

  constructor(tasks: TaskStore, pushes: PushConfigs) {
    this.#tasks = tasks
    this.#pushes = pushes
  }

  /**
   * Sends a message, and waits until its task has ended or needs something of the client, unless it says otherwise.
   *
   * @throws A2aError @throws ServiceError
   */
  async send(asked: Asked, signal: AbortSignal): Promise<object> {
    const sent = parseParams(SendMessage, asked.params)
    const { configuration } = sent
    const begun = await this.#begin(asked, sent)
    const task = configuration?.returnImmediately ? begun : await this.#tasks.settled(begun, signal)
    return { task: viewOf(task, { historyLength: configuration?.historyLength, withArtifacts: true }) }
  }

  /** Sends a message and follows its task to the end. @throws A2aError @throws ServiceError */
  async stream(asked: Asked): Promise<Updates> {
    const sent = parseParams(SendMessage, asked.params)
    return updatesOf(await this.#begin(asked, sent), sent.configuration?.historyLength)
  }

  /** @throws A2aError */
  async get(asked: Asked): Promise<object> {
    const { id, historyLength } = parseParams(GetTask, asked.params)
    return viewOf(await this.#find(asked, id), { historyLength, withArtifacts: true })
  }

  /** @throws A2aError */
  async list(asked: Asked): Promise<object> {
    const query = parseParams(ListTasks, asked.params)
    const { tasks, ...page } = await this.#tasks.list(asked, query)
    const { historyLength, includeArtifacts: withArtifacts, pageSize } = query
    return {
      tasks: tasks.map((task) => viewOf(task, { historyLength, withArtifacts })),
      ...page,
      pageSize: pageSize ?? 50,
    }
  }

  /** @throws A2aError */
  async cancel(asked: Asked, signal: AbortSignal): Promise<object> {
    const task = await this.#find(asked, parseParams(TaskOf, asked.params).id)
    const ended = isOver(task) ? undefined : await this.#tasks.cancel(asked, task, signal)
    const { state } = (ended ?? task).progress.status
    if (ended && state === 'TASK_STATE_CANCELED') return viewOf(ended, { withArtifacts: true })
    throw new A2aError('TASK_NOT_CANCELABLE', `The task has ended: ${state}.`)
  }

  /** Follows a task from where it is now. @throws A2aError */
  async subscribe(asked: Asked): Promise<Updates> {
    const task = await this.#find(asked, parseParams(TaskOf, asked.params).id)
    if (isOver(task)) throw new A2aError('UNSUPPORTED_OPERATION', 'The task has ended: get it with GetTask.')
    return updatesOf(task)
  }

  /** Notifies somebody of a task from now on. @throws A2aError @throws ServiceError */
  async createPush(asked: Asked): Promise<object> {
    const { taskId, ...push } = parseParams(CreatePush, asked.params)
    const task = await this.#find(asked, taskId)
    this.#checkReceiver(asked, push.url, 'url')
    return this.#pushes.put(asked, task, push)
  }

  /** @throws A2aError @throws ServiceError */
  async getPush(asked: Asked): Promise<object> {
    const { taskId, id } = parseParams(PushOf, asked.params)
    const pushes = await this.#pushes.of(asked, await this.#find(asked, taskId))
    const push = pushes.find((each) => each.id === id)
    if (!push) throw new A2aError('TASK_NOT_FOUND', 'The task has no such push notification configuration.')
    return push
  }

  /** @throws A2aError @throws ServiceError */
  async listPushes(asked: Asked): Promise<object> {
    const { taskId } = parseParams(ListPushes, asked.params)
    return { configs: await this.#pushes.of(asked, await this.#find(asked, taskId)), nextPageToken: '' }
  }

  /** @throws A2aError @throws ServiceError */
  async deletePush(asked: Asked): Promise<object> {
    const { taskId, id } = parseParams(PushOf, asked.params)
    await this.#pushes.delete(asked, await this.#find(asked, taskId), id)
    return {}
  }

  /** A new task for a message, or one that goes on with what a person has decided; with who is notified of it. */
  async #begin(asked: Asked, { message, configuration }: SendMessage): Promise<Task> {
    const push = configuration?.taskPushNotificationConfig
    if (push) this.#checkReceiver(asked, push.url, 'configuration.taskPushNotificationConfig.url')
    const { taskId } = message
    const task =
      taskId === undefined ? await this.#tasks.begin(asked, message) : await this.#goOn(asked, { ...message, taskId })
    if (push) await this.#pushes.put(asked, task, push)
    return task
  }

  async #goOn(asked: Asked, message: SendMessage['message'] & { readonly taskId: string }): Promise<Task> {
    const { taskId, contextId } = message
    const task = await this.#find(asked, taskId)
    if (contextId !== undefined && contextId !== task.contextId) {
      throw invalidParam('message.contextId', 'is not the context of the task')
    }
    if (isWaiting(task)) return this.#tasks.decide(asked, task, decisionsOf(message))
    throw new A2aError('UNSUPPORTED_OPERATION', whyNot(task))
  }

  #checkReceiver(asked: Asked, url: string, field: string): void {
    try {
      this.#pushes.check(asked, url)
    } catch (error) {
      throw error instanceof EgressError ? invalidParam(field, error.message) : error
    }
  }

  async #find(asked: Asked, id: string): Promise<Task> {
    const task = await this.#tasks.find(asked, id)
    if (!task) throw noSuchTask()
    return task
  }
}

/** A task takes one message: the next message to the same agency is a task of its own in the same context. */
function whyNot(task: Task): string {
  return isOver(task)
    ? `The task has ended. Send the message with contextId ${JSON.stringify(task.contextId)} and without taskId.`
    : 'The task takes no message while it is worked on. Follow it with SubscribeToTask.'
}

/** What is not there and what belongs to somebody else look alike. */
const noSuchTask = (): A2aError => new A2aError('TASK_NOT_FOUND', 'There is no such task, or it was forgotten.')

export const noExtendedCard = (): A2aError => new A2aError('UNSUPPORTED_OPERATION', 'This agent has no extended card.')

/** The task as it is now, and then what changes. */
function updatesOf(task: Task, historyLength?: number | null): Updates {
  const progress = task.progress.copy()
  const { seq, run } = task
  const first = JSON.stringify({ task: viewOf(task, { historyLength, withArtifacts: true }) })
  return (frame, signal) =>
    encodeBatches(run.read(seq, signal), (event) => progress.apply(event).map(frame).join(''), frame(first))
}
