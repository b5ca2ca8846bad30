import { Agency, Agent } from '@bureau/framework'
import type { RunEnded } from '@bureau/protocol'
import { createLogger, type EventBatch, type GuardedDispatcher } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { describe, expect, test } from 'vitest'
import type { FaceHost } from '../face-host.ts'
import { Threads } from '../threads.ts'
import { A2aOperations } from './operations.ts'
import { SendMessage } from './protocol.ts'
import type { Asked } from './tasks.ts'
import { MemoryTasks } from './tasks.memory.ts'

const clerk = new Agent({ name: 'Clerk', instructions: 'Help.', model: 'gpt-test' })
const served = { name: 'shop', agency: new Agency({ name: 'Shop', entryPoint: clerk }), createdAt: 0, signsIn: false }
const asked = (params: object): Asked => ({ served, params, request: {} as FastifyRequest })
const { message } = SendMessage.parse({ message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'Work' }] } })
const NEVER = new AbortController().signal

/** The tasks of a server with one run, which ends as `end` does; `stopping` resolves when somebody stops it. */
function start() {
  const end = Promise.withResolvers<RunEnded>()
  const stopping = Promise.withResolvers<void>()
  async function* read(): AsyncGenerator<EventBatch> {
    yield { first: 1, events: [await end.promise] }
  }
  const host: FaceHost = {
    agencies: async () => [served],
    agency: async () => served,
    callerOf: async () => null,
    begin: async () => ({ runId: 'r', after: 0, read, mayDecide: true, head: 0, isAtRest: false, leave: () => {} }),
    find: async () => undefined,
    cancel: async () => {
      stopping.resolve()
      return true
    },
  }
  const dispatcher = {} as GuardedDispatcher
  const tasks = new MemoryTasks({ host, threads: new Threads(), dispatcher, log: createLogger('silent') })
  return { tasks, operations: new A2aOperations(tasks, tasks), end, stopping: stopping.promise }
}

describe('a task whose run', () => {
  test('cannot be read has failed, for whoever waits for its answer', async () => {
    const { operations, end } = start()
    const answer = operations.send(asked({ message }), NEVER)

    end.reject(new Error('the log is lost'))

    const status = { state: 'TASK_STATE_FAILED', message: { parts: [{}, { data: { code: 'internal_error' } }] } }
    expect(await answer).toMatchObject({ task: { status } })
  })

  test('cannot be read has failed, for whoever cancels it', async () => {
    const { tasks, operations, end, stopping } = start()
    const { id } = await tasks.begin(asked({}), message)
    const cancelled = operations.cancel(asked({ id }), NEVER)
    await stopping

    end.reject(new Error('the log is lost'))

    await expect(cancelled).rejects.toThrow('The task has ended: TASK_STATE_FAILED')
  })

  test('does not end is not waited for by a client that has left', async () => {
    const { tasks, stopping } = start()
    const task = await tasks.begin(asked({}), message)
    const client = new AbortController()
    const cancelled = tasks.cancel(asked({}), task, client.signal)
    await stopping

    client.abort()

    expect((await cancelled).progress.status.state).toBe('TASK_STATE_SUBMITTED')
  })

  test('comes to wait for a person while it is stopped, is cancelled', async () => {
    const { tasks, operations, end, stopping } = start()
    const { id } = await tasks.begin(asked({}), message)
    const cancelled = operations.cancel(asked({ id }), NEVER)
    await stopping

    const rest = { new_messages: [], usage: null, usage_by_model: [], output: null, error: null }
    end.resolve({ type: 'run.ended', run_id: 'r', status: 'waiting', ...rest, approvals: [] })

    expect(await cancelled).toMatchObject({ status: { state: 'TASK_STATE_CANCELED' } })
  })
})
