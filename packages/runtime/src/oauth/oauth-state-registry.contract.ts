import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { FLOW_LIFETIME_MS, type NewFlow, type OAuthStateRegistry } from './oauth-state-registry.ts'

type OpenedStateRegistry = {
  readonly registry: OAuthStateRegistry
  /** The same flows as another process would see them. */
  readonly elsewhere: OAuthStateRegistry
  /** Moves time on by this many milliseconds. Absent: the implementation's clock cannot be moved. */
  readonly advance?: (ms: number) => Promise<void>
}

const never = new AbortController().signal
const patient = { timeoutMs: 10_000, signal: never }

/** What every OAuthStateRegistry promises. */
export function describeOAuthStateRegistry(name: string, open: () => Promise<OpenedStateRegistry>): void {
  describe(`OAuth state registry: ${name}`, () => {
    let opened: OpenedStateRegistry
    let registry: OAuthStateRegistry
    let elsewhere: OAuthStateRegistry

    beforeEach(async () => {
      opened = await open()
      ;({ registry, elsewhere } = opened)
      onTestFinished(async () => void (await Promise.all([registry.close(), elsewhere.close()])))
    })

    async function begin(flow: Partial<NewFlow> = {}): Promise<string> {
      const state = randomBytes(32).toString('base64url')
      await registry.open({ state, authUrl: 'https://login.example/?x', server: 'docs', userId: 'ada', ...flow })
      return state
    }
    const code = (state: string, userId: string | null = null) =>
      elsewhere.complete({ state, userId, outcome: { query: `code=c1&state=${state}` } })
    const error = (state: string, userId: string | null = null) =>
      elsewhere.complete({ state, userId, outcome: { error: 'access_denied: no' } })

    test('a new flow is pending, here and elsewhere', async () => {
      const state = await begin()
      const flow = { state, authUrl: 'https://login.example/?x', server: 'docs', userId: 'ada', status: 'pending' }
      expect(await registry.find(state)).toMatchObject(flow)
      expect(await elsewhere.find(state)).toMatchObject(flow)
    })

    test('an unknown state is unknown to every question', async () => {
      expect(await registry.find('nope')).toBeUndefined()
      expect(await registry.settled('nope', 10_000)).toBeUndefined()
      expect(await code('nope')).toEqual({ accepted: false, because: 'unknown' })
      expect(await registry.wait('nope', patient)).toEqual({ status: 'error:unknown_state' })
    })

    test('a code that arrives elsewhere reaches the waiter, with its whole query', async () => {
      const state = await begin()
      const waiting = registry.wait(state, patient)
      expect(await code(state)).toMatchObject({ accepted: true, flow: { server: 'docs' } })
      expect(await waiting).toEqual({ query: `code=c1&state=${state}` })
    })

    test('a code that arrives before anybody waits is kept', async () => {
      const state = await begin()
      await code(state)
      expect(await registry.wait(state, patient)).toEqual({ query: `code=c1&state=${state}` })
    })

    test('a flow is authorized only when it is settled so, not when the code arrives', async () => {
      const state = await begin()
      await code(state)
      expect(await elsewhere.find(state)).toMatchObject({ status: 'pending' })
      const watching = elsewhere.settled(state, 10_000)
      await registry.settle(state, 'authorized')
      expect(await watching).toMatchObject({ status: 'authorized' })
      expect(await elsewhere.find(state)).toMatchObject({ status: 'authorized' })
    })

    test('a state works once: later answers are refused and change nothing', async () => {
      const state = await begin()
      await code(state)
      expect(await code(state)).toMatchObject({ accepted: false, because: 'settled', flow: { status: 'pending' } })
      expect(await error(state)).toMatchObject({ accepted: false, because: 'settled' })
      await registry.settle(state, 'authorized')
      expect(await code(state)).toMatchObject({ accepted: false, because: 'settled', flow: { status: 'authorized' } })
    })

    test('of two answers at the same moment exactly one is taken', async () => {
      const state = await begin()
      const both = await Promise.all([
        code(state),
        registry.complete({ state, userId: null, outcome: { query: 'code=c2' } }),
      ])
      expect(both.filter(({ accepted }) => accepted)).toHaveLength(1)
    })

    test('an error ends the flow and releases the waiter', async () => {
      const state = await begin()
      const waiting = registry.wait(state, patient)
      expect(await error(state)).toMatchObject({ accepted: true, flow: { status: 'error:access_denied: no' } })
      expect(await waiting).toEqual({ status: 'error:access_denied: no' })
      expect(await code(state)).toMatchObject({ accepted: false, because: 'settled' })
    })

    test("another user's code ends the flow as user_mismatch, and is not kept", async () => {
      const state = await begin()
      const waiting = registry.wait(state, patient)
      const flow = { status: 'error:user_mismatch' }
      expect(await code(state, 'eve')).toMatchObject({ accepted: false, because: 'user_mismatch', flow })
      expect(await waiting).toEqual({ status: 'error:user_mismatch' })
    })

    test("another user's error changes nothing", async () => {
      const state = await begin()
      expect(await error(state, 'eve')).toMatchObject({ accepted: false, because: 'user_mismatch' })
      expect(await registry.find(state)).toMatchObject({ status: 'pending' })
      expect(await code(state, 'ada')).toMatchObject({ accepted: true })
    })

    test('a wait that is over makes the flow timeout; the late answer is refused', async () => {
      const state = await begin()
      expect(await registry.wait(state, { timeoutMs: 20, signal: never })).toEqual({ status: 'timeout' })
      expect(await code(state)).toMatchObject({ accepted: false, because: 'settled', flow: { status: 'timeout' } })
    })

    test('a wait that is aborted rejects with the reason', async () => {
      const state = await begin()
      const abort = new AbortController()
      const waiting = registry.wait(state, { timeoutMs: 10_000, signal: abort.signal })
      abort.abort(new Error('cancelled'))
      await expect(waiting).rejects.toThrow('cancelled')
      await expect(registry.wait(state, { timeoutMs: 10_000, signal: abort.signal })).rejects.toThrow('cancelled')
    })

    test('only a pending flow can be settled; an unknown one becomes a flow of that status', async () => {
      const state = await begin()
      await registry.settle(state, 'authorized')
      await registry.settle(state, 'timeout')
      expect(await registry.find(state)).toMatchObject({ status: 'authorized' })
      const unknown = randomBytes(32).toString('base64url')
      await registry.settle(unknown, 'timeout')
      expect(await elsewhere.find(unknown)).toMatchObject({ status: 'timeout' })
    })

    test('watching a flow that does not end gives up in time and says how it is', async () => {
      const state = await begin()
      expect(await registry.settled(state, 20)).toMatchObject({ status: 'pending' })
    })

    test('a flow that is opened again starts anew', async () => {
      const state = await begin()
      await error(state)
      await registry.open({ state, authUrl: 'https://login.example/', server: 'docs', userId: 'ada' })
      expect(await code(state)).toMatchObject({ accepted: true })
    })

    test('many flows at once do not mix', async () => {
      const states = await Promise.all(Array.from({ length: 20 }, () => begin()))
      const waiting = Promise.all(states.map((state) => registry.wait(state, patient)))
      await Promise.all(states.map((state) => code(state)))
      expect(await waiting).toEqual(states.map((state) => ({ query: `code=c1&state=${state}` })))
    })

    test('a flow is forgotten 15 minutes after it was opened', async ({ skip }) => {
      if (!opened.advance) return skip('the clock of this implementation cannot be moved')
      const state = await begin()
      await opened.advance(FLOW_LIFETIME_MS - 1_000)
      expect(await registry.find(state)).toMatchObject({ status: 'pending' })
      await opened.advance(1_001)
      expect(await registry.find(state)).toBeUndefined()
      expect(await code(state)).toEqual({ accepted: false, because: 'unknown' })
    })
  })
}
