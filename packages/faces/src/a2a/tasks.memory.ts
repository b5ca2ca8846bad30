import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type ApprovalRequest, ServiceError } from '@bureau/protocol'
import { checkReceiver, type GuardedDispatcher, type Logger } from '@bureau/runtime'
import { endOf, type FaceDecision, type FaceHost, type FaceRun } from '../face-host.ts'
import type { OpenThread, Threads } from '../threads.ts'
import { asUnknownContext, invalidParam } from './a2a-error.ts'
import { isSettled, type ListTasks, type Message, type NewPush } from './protocol.ts'
import { PushDelivery } from './push-delivery.ts'
import {
  MAX_PUSHES,
  type Notification,
  type PushConfig,
  type PushConfigs,
  pushView,
  sendNotification,
  TOO_MANY_PUSHES,
} from './push.ts'
import { toInput } from './read-message.ts'
import { TaskProgress } from './task-progress.ts'
import { type Asked, isOver, isWaiting, type Task, type TaskPage, type TaskStore } from './tasks.ts'

const MIB = 1_048_576

type KeptTask = { -readonly [member in keyof Task]: Task[member] } & {
  /** Who may ask for it. */
  readonly owner: string
  /** The calls that wait, with the tokens that their decisions need. */
  approvals: readonly ApprovalRequest[]
  /** Present while a decision about a task that waits is being carried out: resolves when its run goes on, or does not. */
  deciding?: Promise<unknown> | undefined
  /** Resolves when the state has changed next. */
  changed: PromiseWithResolvers<void>
  /** Who is notified, by the ids of their configurations. */
  readonly pushes: Map<string, KeptPush>
}

type KeptPush = { readonly push: NewPush; readonly delivery: PushDelivery }

type TasksOptions = {
  readonly host: FaceHost
  readonly threads: Threads
  /** Which receivers may be notified, and the way to them. */
  readonly dispatcher: GuardedDispatcher
  readonly log: Logger
  /** Default 10,000. */
  readonly maxTasks?: number
  /** Of all their messages, answers and push notification configurations, about. Default 67,108,864 (64 MiB). */
  readonly maxBytes?: number
}

/**
 * The tasks of this process. When there are too many, those that ended first are forgotten first, and those that wait with
 * them. Tasks that are being worked on never are: the server's limit of runs holds for them.
 */
export class MemoryTasks implements TaskStore, PushConfigs {
  readonly #options: Required<TasksOptions>
  readonly #tasks = new Map<string, KeptTask>()
  /** In the order in which they ended or began to wait, with what they take. */
  readonly #resting = new Map<string, number>()
  #bytes = 0

  constructor(options: TasksOptions) {
    this.#options = { maxTasks: 10_000, maxBytes: 64 * MIB, ...options }
  }

  async begin(asked: Asked, message: Message): Promise<Task> {
    const owner = await this.#ownerOf(asked)
    const input = toInput(message)
    const thread = this.#openThread(owner, message.contextId)
    const run = await this.#start(asked, thread, { input, decisions: [] })
    const id = randomUUID()
    const contextId = thread.id
    const progress = new TaskProgress({ taskId: id, contextId }, asked.served)
    const added = {
      id,
      contextId,
      owner,
      run,
      progress,
      message,
      seq: 0,
      approvals: [],
      changed: Promise.withResolvers<void>(),
      pushes: new Map(),
    }
    this.#tasks.set(id, added)
    void this.#watch(added, thread)
    return added
  }

  async decide(asked: Asked, { id, contextId }: Task, decisions: readonly FaceDecision[]): Promise<Task> {
    const task = this.#tasks.get(id)!
    const thread = this.#openThread(task.owner, contextId)
    const sealed = decisions.map((decision) => {
      const token = task.approvals.find(({ call_id: callId }) => callId === decision.callId)?.token
      return { ...decision, ...(token !== undefined && { token }) }
    })
    const goingOn = this.#start(asked, thread, { input: [], decisions: sealed }).then((run) => {
      Object.assign(task, { run, seq: 0 })
      task.progress.goOn()
      notify(task)
      this.#wake(id)
      void this.#watch(task, thread)
    })
    task.deciding = Promise.allSettled([goingOn]).then(() => (task.deciding = undefined))
    await goingOn
    return task
  }

  async find(asked: Asked, id: string): Promise<Task | undefined> {
    const task = this.#tasks.get(id)
    return task?.owner === (await this.#ownerOf(asked)) ? task : undefined
  }

  async settled({ id }: Task, signal: AbortSignal): Promise<Task> {
    const task = this.#tasks.get(id)!
    await until(({ progress }) => isSettled(progress.status.state), task, signal)
    return task
  }

  async cancel({ request, served }: Asked, { id }: Task, signal: AbortSignal): Promise<Task> {
    const task = this.#tasks.get(id)!
    while (!isOver(task) && !signal.aborted) {
      if (task.deciding) await task.deciding
      else if (isWaiting(task)) {
        // Nobody works on it.
        task.progress.cancel()
        notify(task)
      } else {
        await this.#options.host.cancel(request, { served, runId: task.run.runId })
        await until((stopped) => isOver(stopped) || isWaiting(stopped), task, signal)
      }
    }
    return task
  }

  async list(asked: Asked, query: ListTasks): Promise<TaskPage> {
    const { contextId, status, statusTimestampAfter, pageSize, pageToken } = query
    const owner = await this.#ownerOf(asked)
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
      tasks: page.map(({ task }) => task),
      nextPageToken: rest.length > size ? Buffer.from(page.at(-1)!.key).toString('base64url') : '',
      totalSize: all.length,
    }
  }

  check(_asked: Asked, url: string): void {
    checkReceiver(url, this.#options.dispatcher)
  }

  async put(_asked: Asked, { id: taskId }: Task, push: NewPush): Promise<PushConfig> {
    const task = this.#tasks.get(taskId)!
    const { id = randomUUID() } = push
    const before = task.pushes.get(id)
    if (!before && task.pushes.size >= MAX_PUSHES)
      throw new ServiceError('invalid_request', { message: TOO_MANY_PUSHES })
    if (before) before.delivery.due = undefined
    const delivery = new PushDelivery((notification) => this.#send(push, notification))
    task.pushes.set(id, { push, delivery })
    delivery.due = dueOf(task)
    if (this.#resting.has(taskId)) {
      this.#wake(taskId)
      this.#rest(task)
    }
    return pushView(taskId, id, push)
  }

  async of(_asked: Asked, { id }: Task): Promise<readonly PushConfig[]> {
    return [...this.#tasks.get(id)!.pushes].map(([pushId, { push }]) => pushView(id, pushId, push))
  }

  async delete(_asked: Asked, { id }: Task, pushId: string): Promise<void> {
    const { pushes } = this.#tasks.get(id)!
    const push = pushes.get(pushId)
    if (push) push.delivery.due = undefined
    pushes.delete(pushId)
  }

  async #send(push: NewPush, notification: Notification): Promise<number | null> {
    const { dispatcher, log } = this.#options
    try {
      return await sendNotification(checkReceiver(push.url, dispatcher), push, { ...notification, dispatcher })
    } catch (error) {
      log.info({ err: error, taskId: notification.taskId }, 'a push notification could not be delivered')
      return null
    }
  }

  async #start(
    { request, served }: Asked,
    thread: OpenThread,
    { input, decisions }: { readonly input: ReturnType<typeof toInput>; readonly decisions: readonly FaceDecision[] },
  ): Promise<FaceRun> {
    try {
      const asked = { served, input: { message: input, history: thread.history }, kept: true, decisions }
      return await this.#options.host.begin(request, asked)
    } catch (error) {
      thread.close()
      throw error
    }
  }

  #openThread(owner: string, contextId: string | undefined): OpenThread {
    try {
      return this.#options.threads.open(owner, contextId)
    } catch (error) {
      throw asUnknownContext(error)
    }
  }

  /** Reads the run of a task to its end, for those who ask where it is. */
  async #watch(task: KeptTask, thread: OpenThread): Promise<void> {
    const { run, progress } = task
    const { log } = this.#options
    try {
      const ended = await endOf(run, NEVER, (event, seq) => {
        const before = progress.status
        progress.apply(event)
        task.seq = seq
        if (progress.status === before) return
        if (event.type === 'run.ended') {
          task.approvals = event.approvals ?? []
          if (event.status === 'completed' || event.status === 'waiting') thread.add(event.new_messages)
        }
        notify(task)
      })
      log.debug({ taskId: task.id, runId: run.runId, status: ended.status }, 'task ended')
    } catch (error) {
      log.error({ err: error, taskId: task.id }, 'the run of a task cannot be read')
      progress.fail()
      notify(task)
    }
    thread.close()
    this.#rest(task)
  }

  /** Nobody works on the task any more: it is kept while there is room. */
  #rest({ id, message, progress, pushes }: KeptTask): void {
    const { maxTasks, maxBytes } = this.#options
    const bytes = JSON.stringify([message, progress.artifact, [...pushes.values()].map(({ push }) => push)]).length
    this.#resting.set(id, bytes)
    this.#bytes += bytes
    for (const oldest of this.#resting.keys()) {
      if (this.#tasks.size <= maxTasks && this.#bytes <= maxBytes) return
      this.#tasks.delete(oldest)
      this.#wake(oldest)
    }
  }

  #wake(id: string): void {
    this.#bytes -= this.#resting.get(id) ?? 0
    this.#resting.delete(id)
  }

  async #ownerOf({ served, request }: Asked): Promise<string> {
    return JSON.stringify([served.name, await this.#options.host.callerOf(request, served)])
  }
}

/** The state of a task has changed. */
function notify(task: KeptTask): void {
  const due = dueOf(task)
  for (const { delivery } of task.pushes.values()) delivery.due = due
  task.changed.resolve()
  task.changed = Promise.withResolvers()
}

/** Waits until a task is as it should be, or `signal` aborts. */
async function until(isSo: (task: Task) => boolean, task: KeptTask, signal: AbortSignal): Promise<void> {
  const left = once(signal, 'abort')
  while (!isSo(task) && !signal.aborted) await Promise.race([task.changed.promise, left])
}

/** That the task has ended or needs something of its client; nothing while it is worked on. */
function dueOf({ id: taskId, contextId, progress }: Task): Notification | undefined {
  const { state, timestamp } = progress.status
  return isSettled(state) ? { taskId, contextId, state, timestamp } : undefined
}

const NEVER = new AbortController().signal

/** Where a page ends: the time and the id of its last task. */
function readToken(token: string): string {
  const key = Buffer.from(token, 'base64url').toString()
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [\da-f-]{36}$/.test(key)) return key
  throw invalidParam('pageToken', 'is not one of this list')
}
