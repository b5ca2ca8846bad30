import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { createLogger, MemoryRunLogs } from '@bureau/runtime'
import { describe, expect, test } from 'vitest'
import { useTestStore } from '../../use-test-store.contract.ts'
import { MAX_STALLED } from '../recover/take-up-policy.ts'
import type { TakenRun } from '../recover/take-up-run.ts'
import type { ActiveRun } from './active-run.ts'
import { RunExecutor } from './run-executor.ts'

/** A store of logs that answers late. */
class LateLogs extends MemoryRunLogs {
  readonly #answer = Promise.withResolvers<void>()

  answer(): void {
    this.#answer.resolve()
  }

  override async find(): Promise<undefined> {
    await this.#answer.promise
  }
}

/** A run that a process has given up, and that fails where it cannot go on. */
function takenRun(bootId: string, stalled = 0): TakenRun {
  return {
    ownerId: 'own_1',
    runId: 'run_1',
    bootId,
    chatId: 'chat_1',
    agent: 'CEO',
    settings: {
      agencyId: 'shop',
      onDisconnect: 'continue',
      whenRunnerLost: 'fail',
      runTimeoutSeconds: 60,
      maxTurns: 10,
    },
    before: { attempt: 2, stalled, lost: false, waited: false, lastEventSeq: 0 },
  }
}

describe('a run that a process is about to take up', () => {
  const platform = useTestStore('pglite')

  function openExecutor() {
    const logs = new LateLogs()
    const begun: ActiveRun[] = []
    const execute = async (run: ActiveRun): Promise<void> => {
      begun.push(run)
      if (!run.control.signal.aborted) await once(run.control.signal, 'abort')
    }
    const executor = new RunExecutor({ store: platform.store, logs, log: createLogger('silent'), execute })
    return { executor, logs, begun }
  }

  test('is not begun when the process was fenced meanwhile; given to it once more, it is', async () => {
    const { executor, logs, begun } = openExecutor()

    executor.takeUp(takenRun('boot_1'))
    executor.fence('boot_1')
    executor.takeUp(takenRun('boot_2'))
    logs.answer()
    await expect.poll(() => begun).toHaveLength(1)

    expect(begun[0]?.reserved.bootId).toBe('boot_2')
    await executor.drain(0)
  })

  test('is waited for and given up by a process that stops', async () => {
    const { executor, logs, begun } = openExecutor()
    let isDrained = false

    executor.takeUp(takenRun('boot_1'))
    const draining = executor.drain(0).then(() => (isDrained = true))
    await setImmediate()
    const wasDrained = isDrained
    logs.answer()
    await draining

    expect(wasDrained).toBe(false)
    expect(begun.map(({ stoppedBy }) => stoppedBy)).toEqual(['server_shutdown'])
  })

  test('is given up also when it begins after all others were', async () => {
    const { executor, logs, begun } = openExecutor()
    const { before: _, ...other } = { ...takenRun('boot_1'), runId: 'run_2' }
    const settings = { ...other.settings, whenRunnerLost: 'resume' as const }
    const { control } = executor.start({ ...other, settings }, null)

    executor.takeUp(takenRun('boot_1'))
    const draining = executor.drain(0)
    await expect.poll(() => control.mustHandOver).toBe(true)
    logs.answer()
    await expect.poll(() => begun[1]?.stoppedBy).toBe('server_shutdown')
    control.handedOver()

    await draining
  })

  test('is not worked on when it begins after the process has closed', async () => {
    const { executor, begun } = openExecutor()
    await executor.drain(0)
    executor.close()

    const run = executor.start(takenRun('boot_1'), null)
    await run.ended

    expect(begun.map(({ fenced }) => fenced)).toEqual([true])
  })

  test('is not worked on when the process was fenced while it was admitted', async () => {
    const { executor, begun } = openExecutor()
    executor.fence('boot_1')

    const run = executor.start(takenRun('boot_1'), null)
    await run.ended

    expect(begun.map(({ fenced }) => fenced)).toEqual([true])
  })

  test('counts as one that other processes have died over before it has begun', async () => {
    const { executor, logs, begun } = openExecutor()

    executor.takeUp(takenRun('boot_1', MAX_STALLED - 1))
    const isSuspectEarly = executor.hasSuspect
    logs.answer()
    await expect.poll(() => begun).toHaveLength(1)

    expect([isSuspectEarly, executor.hasSuspect]).toEqual([true, true])
    await executor.drain(0)
    expect(executor.hasSuspect).toBe(false)
  })
})
