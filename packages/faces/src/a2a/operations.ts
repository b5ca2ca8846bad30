import { ServiceError } from '@bureau/protocol'
import { encodeBatches, type Logger } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { endOf, type FaceAgency, type FaceHost } from '../face-host.ts'
import type { OpenThread, Threads } from '../threads.ts'
import { A2aError, invalidParam, parseParams } from './a2a-error.ts'
import { GetTask, isSettled, ListTasks, type Message, SendMessage, TaskOf } from './protocol.ts'
import { toInput } from './read-message.ts'
import { isOver, type Task, type Tasks, viewOf } from './tasks.ts'

type A2aHost = {
  readonly host: FaceHost
  readonly threads: Threads
  readonly tasks: Tasks
  readonly log: Logger
}

/** A request to an agency, whatever binding it came over. */
export type Asked = { readonly served: FaceAgency; readonly params: unknown; readonly request: FastifyRequest }

/** A stream of `StreamResponse`s, each as JSON. `frame` makes of one what goes over the wire. */
export type Updates = (frame: (json: string) => string, signal: AbortSignal) => AsyncIterableIterator<string, void>

/** The operations of the protocol (specification 3.1) over the runs of a server: a task is a run, a context is a thread. */
export class A2aOperations {
  readonly #host: FaceHost
  readonly #threads: Threads
  readonly #tasks: Tasks
  readonly #log: Logger

  constructor({ host, threads, tasks, log }: A2aHost) {
    this.#host = host
    this.#threads = threads
    this.#tasks = tasks
    this.#log = log
  }

  /**
   * Sends a message, and waits until its task has ended or needs something of the client, unless it says otherwise.
   *
   * @throws A2aError @throws ServiceError
   */
  async send(asked: Asked, signal: AbortSignal): Promise<object> {
    const { message, configuration } = this.#readSend(asked)
    const task = await this.#begin(asked, message)
    if (!configuration?.returnImmediately) await untilSettled(task, signal)
    return { task: viewOf(task, { historyLength: configuration?.historyLength, withArtifacts: true }) }
  }

  /** Sends a message and follows its task to the end. @throws A2aError @throws ServiceError */
  async stream(asked: Asked): Promise<Updates> {
    const { message, configuration } = this.#readSend(asked)
    return updatesOf(await this.#begin(asked, message), configuration?.historyLength)
  }

  /** @throws A2aError */
  async get(asked: Asked): Promise<object> {
    const { id, historyLength } = parseParams(GetTask, asked.params)
    return viewOf(await this.#find(asked, id), { historyLength, withArtifacts: true })
  }

  /** @throws A2aError */
  async list(asked: Asked): Promise<object> {
    return this.#tasks.list(await this.#ownerOf(asked), parseParams(ListTasks, asked.params))
  }

  /** @throws A2aError */
  async cancel(asked: Asked): Promise<object> {
    const task = await this.#find(asked, parseParams(TaskOf, asked.params).id)
    if (!isOver(task)) {
      await this.#host.cancel(asked.request, { served: task.served, runId: task.run.runId })
      while (!isOver(task)) await task.changed.promise
      if (task.progress.status.state === 'TASK_STATE_CANCELED') return viewOf(task, { withArtifacts: true })
    }
    throw new A2aError('TASK_NOT_CANCELABLE', `The task has ended: ${task.progress.status.state}.`)
  }

  /** Follows a task from where it is now. @throws A2aError */
  async subscribe(asked: Asked): Promise<Updates> {
    const task = await this.#find(asked, parseParams(TaskOf, asked.params).id)
    if (isOver(task)) throw new A2aError('UNSUPPORTED_OPERATION', 'The task has ended: get it with GetTask.')
    return updatesOf(task)
  }

  #readSend({ params }: Asked): SendMessage {
    const send = parseParams(SendMessage, params)
    if (send.configuration?.taskPushNotificationConfig != null) throw noPushNotifications()
    return send
  }

  /** A new task for a message. Its run goes on whoever leaves. */
  async #begin(asked: Asked, message: Message): Promise<Task> {
    const { served, request } = asked
    const owner = await this.#ownerOf(asked)
    if (message.taskId !== undefined) this.#refuseTask(owner, message, message.taskId)
    const input = toInput(message)
    const thread = this.#openThread(owner, message.contextId)
    try {
      const run = await this.#host.begin(request, {
        served,
        input: { message: input, history: thread.history },
        kept: true,
      })
      const task = this.#tasks.add({ contextId: thread.id, owner, served, run, message })
      void this.#watch(task, thread)
      return task
    } catch (error) {
      thread.close()
      throw error
    }
  }

  /** A task takes one message: the next message to the same agency is a task of its own in the same context. */
  #refuseTask(owner: string, { contextId }: Message, taskId: string): never {
    const task = this.#tasks.find(owner, taskId)
    if (!task) throw noSuchTask()
    if (contextId !== undefined && contextId !== task.contextId) {
      throw invalidParam('message.contextId', 'is not the context of the task')
    }
    const words = isOver(task)
      ? `The task has ended. Send the message with contextId ${JSON.stringify(task.contextId)} and without taskId.`
      : 'The task takes no message while it is worked on. Follow it with SubscribeToTask.'
    throw new A2aError('UNSUPPORTED_OPERATION', words)
  }

  #openThread(owner: string, contextId: string | undefined): OpenThread {
    try {
      return this.#threads.open(owner, contextId)
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== 'thread_not_found') throw error
      throw invalidParam(
        'message.contextId',
        'there is no such context, or it was forgotten; leave it out to begin one',
      )
    }
  }

  /** Reads the run of a task to its end, for those who ask where it is. */
  async #watch(task: Task, thread: OpenThread): Promise<void> {
    const { run, progress } = task
    try {
      const ended = await endOf(run, NEVER, (event, seq) => {
        const before = progress.status
        progress.apply(event)
        task.seq = seq
        if (progress.status === before) return
        if (event.type === 'run.ended' && event.status === 'completed') thread.add(event.new_messages)
        task.changed.resolve()
        task.changed = Promise.withResolvers()
      })
      this.#log.debug({ taskId: task.id, runId: run.runId, status: ended.status }, 'task ended')
    } catch (error) {
      this.#log.error({ err: error, taskId: task.id }, 'the run of a task cannot be read')
    }
    thread.close()
    this.#tasks.end(task)
  }

  async #find(asked: Asked, id: string): Promise<Task> {
    const task = this.#tasks.find(await this.#ownerOf(asked), id)
    if (!task) throw noSuchTask()
    return task
  }

  async #ownerOf({ served, request }: Asked): Promise<string> {
    return JSON.stringify([served.name, await this.#host.callerOf(request, served)])
  }
}

const NEVER = new AbortController().signal

/** What is not there and what belongs to somebody else look alike. */
const noSuchTask = (): A2aError => new A2aError('TASK_NOT_FOUND', 'There is no such task, or it was forgotten.')

export const noPushNotifications = (): A2aError =>
  new A2aError('PUSH_NOTIFICATION_NOT_SUPPORTED', 'This agent sends no push notifications.')

export const noExtendedCard = (): A2aError => new A2aError('UNSUPPORTED_OPERATION', 'This agent has no extended card.')

/** The task as it is now, and then what changes. */
function updatesOf(task: Task, historyLength?: number | null): Updates {
  const progress = task.progress.copy()
  const { seq } = task
  const first = JSON.stringify({ task: viewOf(task, { historyLength, withArtifacts: true }) })
  return (frame, signal) =>
    encodeBatches(task.run.read(seq, signal), (event) => progress.apply(event).map(frame).join(''), frame(first))
}

async function untilSettled(task: Task, signal: AbortSignal): Promise<void> {
  const left = aborted(signal)
  while (!isSettled(task.progress.status.state) && !signal.aborted) await Promise.race([task.changed.promise, left])
}

function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  if (signal.aborted) resolve()
  else signal.addEventListener('abort', () => resolve(), { once: true })
  return promise
}
