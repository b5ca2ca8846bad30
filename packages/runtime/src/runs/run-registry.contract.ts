import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { RunControl } from '@bureau/framework'
import type { CancelMode, RunEnded } from '@bureau/protocol'
import type { CancelRequest, LiveRun, RunRegistry } from './run-registry.ts'

type OpenedRunRegistry = {
  readonly registry: RunRegistry
  /** The registry of another process. */
  readonly elsewhere: RunRegistry
}

type TestRun = LiveRun & { readonly modes: CancelMode[]; readonly end: (messages?: string[]) => void }

type RunFacts = Partial<Pick<LiveRun, 'agency' | 'userId' | 'soFar'>>

/** A run that ends when the test says so. */
export function testRun(facts: RunFacts = {}): TestRun {
  const runId = randomUUID()
  const modes: CancelMode[] = []
  const control = new RunControl()
  const cancel = control.cancel.bind(control)
  control.cancel = (mode) => {
    modes.push(mode)
    cancel(mode)
  }
  const { promise: ended, resolve } = Promise.withResolvers<RunEnded>()
  const end = (messages: string[] = ['hello']): void =>
    resolve({
      type: 'run.ended',
      run_id: runId,
      status: 'cancelled',
      new_messages: messages.map((content) => ({ type: 'message', role: 'assistant', content })),
      usage: null,
      usage_by_model: [],
      output: null,
      error: null,
    })
  return { runId, agency: 'solo', userId: null, control, ended, modes, end, ...facts }
}

export function cancelOf(run: LiveRun, facts: Partial<CancelRequest> = {}): CancelRequest {
  return { runId: run.runId, agency: run.agency, userId: run.userId, mode: 'immediate', timeoutMs: 10_000, ...facts }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

/** What every RunRegistry promises. */
export function describeRunRegistry(name: string, open: () => Promise<OpenedRunRegistry>): void {
  describe(`run registry: ${name}`, () => {
    let opened: OpenedRunRegistry

    beforeEach(async () => {
      opened = await open()
      const { registry, elsewhere } = opened
      onTestFinished(async () => void (await Promise.all([registry.close(), elsewhere.close()])))
    })

    async function begin(facts: RunFacts = {}): Promise<TestRun> {
      const run = testRun(facts)
      await opened.registry.register(run)
      return run
    }

    test('a run is elsewhere for other processes alone, under its own agency and user, until it has ended', async () => {
      const { registry, elsewhere } = opened
      const run = await begin({ userId: 'ada' })
      const others = registry === elsewhere ? [] : [run]
      const asked = [run, { ...run, agency: 'other' }, { ...run, userId: 'eve' }, { ...run, runId: 'unknown' }]
      const known = await Promise.all(asked.map((each) => elsewhere.isElsewhere(each)))
      expect(asked.filter((_, index) => known[index])).toEqual(others)
      expect(await registry.isElsewhere(run)).toBe(false)
      run.end()
      await expect.poll(() => elsewhere.isElsewhere(run)).toBe(false)
    })

    test.each(['registry', 'elsewhere'] as const)(
      'a cancel by the %s reaches the run and brings its end',
      async (side) => {
        const run = await begin()
        const stopped = aborted(run.control.signal)
        const cancelling = opened[side].cancel(cancelOf(run))
        await stopped
        run.end(['half an answer'])
        const outcome = await cancelling
        expect(outcome).toEqual({ ended: await run.ended })
        expect(run.modes).toEqual(['immediate'])
      },
    )

    test.each(['registry', 'elsewhere'] as const)('the %s hands on after_turn', async (side) => {
      const run = await begin()
      const stopping = aborted(run.control.stopSignal)
      const cancelling = opened[side].cancel(cancelOf(run, { mode: 'after_turn' }))
      await stopping
      run.end()
      await cancelling
      expect(run.modes).toEqual(['after_turn'])
      expect(run.control.signal.aborted).toBe(false)
    })

    test('two cancels of one run get equal outcomes', async () => {
      const run = await begin()
      const stopped = aborted(run.control.signal)
      const both = [opened.registry.cancel(cancelOf(run)), opened.elsewhere.cancel(cancelOf(run))]
      await stopped
      run.end(['once'])
      const [first, second] = await Promise.all(both)
      expect(first).toEqual(second)
    })

    test.each(['registry', 'elsewhere'] as const)(
      'a run that does not end in time is null for the %s',
      async (side) => {
        const run = await begin()
        expect(await opened[side].cancel(cancelOf(run, { timeoutMs: 100 }))).toMatchObject({ ended: null })
        run.end()
      },
    )

    test('where it is executed, it is also told what such a run has produced', async () => {
      const soFar = [{ type: 'message', role: 'user', content: 'go' }]
      const run = await begin({ soFar: () => soFar })
      expect(await opened.registry.cancel(cancelOf(run, { timeoutMs: 50 }))).toEqual({ ended: null, soFar })
      run.end()
    })

    test.each(['registry', 'elsewhere'] as const)('the %s finds a run only for its agency and user', async (side) => {
      const run = await begin({ agency: 'solo', userId: 'ada' })
      for (const facts of [{ agency: 'other' }, { userId: 'eve' }, { userId: null }, { runId: randomUUID() }]) {
        expect(await opened[side].cancel(cancelOf(run, facts))).toBeUndefined()
      }
      expect(run.modes).toEqual([])
      run.end()
    })

    test.each(['registry', 'elsewhere'] as const)(
      'a run that has ended on its own is unknown to the %s',
      async (side) => {
        const run = await begin()
        run.end()
        await run.ended
        expect(await opened[side].cancel(cancelOf(run))).toBeUndefined()
      },
    )

    test.each(['registry', 'elsewhere'] as const)(
      'a client that leaves stops its run, and a cancel by the %s that comes after it brings the end',
      async (side) => {
        const run = await begin()
        opened.registry.abandon(run)
        expect(run.modes).toEqual(['immediate'])
        run.end(['half an answer'])
        await run.ended
        expect(await opened[side].cancel(cancelOf(run))).toEqual({ ended: await run.ended })
        expect(await opened[side].cancel(cancelOf(run, { userId: 'eve' }))).toBeUndefined()
      },
    )

    test.each(['registry', 'elsewhere'] as const)(
      'a client that leaves while its run ends can cancel by the %s, and waits for the end',
      async (side) => {
        const run = await begin()
        opened.registry.abandon(run)
        const cancelling = opened[side].cancel(cancelOf(run))
        run.end()
        expect(await cancelling).toEqual({ ended: await run.ended })
      },
    )

    test.each(['registry', 'elsewhere'] as const)(
      'a client that leaves a run that has ended, before it has read the end, gets it from the %s',
      async (side) => {
        const run = await begin()
        run.end(['a whole answer'])
        await run.ended
        opened.registry.abandon(run)
        expect(await opened[side].cancel(cancelOf(run))).toEqual({ ended: await run.ended })
      },
    )

    test.each(['registry', 'elsewhere'] as const)(
      'a cancel right after a cancel gets the same answer from the %s',
      async (side) => {
        const run = await begin()
        const stopped = aborted(run.control.signal)
        const cancelling = opened.elsewhere.cancel(cancelOf(run))
        await stopped
        run.end()
        expect(await opened[side].cancel(cancelOf(run))).toEqual(await cancelling)
      },
    )
  })
}
