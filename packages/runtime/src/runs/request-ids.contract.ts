import { describe, expect, test } from 'vitest'
import type { NamedRequest, RequestedRun, RequestIds } from './request-ids.ts'

type RequestIdsUnderTest = {
  readonly ids: RequestIds
  /** The same ids as another process sees them. */
  readonly elsewhere: RequestIds
  /** Lets time pass. */
  readonly advance: (ms: number) => Promise<void>
}

const REQUEST: NamedRequest = { agency: 'solo', userId: 'ada', requestId: 'first' }
const runOf = (runId: string): RequestedRun => ({ runId, asked: `what ${runId} asks` })

/** What every implementation of {@link RequestIds} must do. */
export function describeRequestIds(name: string, open: () => Promise<RequestIdsUnderTest>): void {
  describe(`ids of requests: ${name}`, () => {
    test('the first run that claims a request has it, on any process', async () => {
      const { ids, elsewhere } = await open()
      expect(await ids.find(REQUEST)).toBeUndefined()
      expect(await ids.claim(REQUEST, runOf('one'))).toEqual(runOf('one'))
      expect(await elsewhere.claim(REQUEST, runOf('two'))).toEqual(runOf('one'))
      expect(await elsewhere.find(REQUEST)).toEqual(runOf('one'))
    })

    test('of many who claim one at once one succeeds', async () => {
      const { ids, elsewhere } = await open()
      const claims = [ids, elsewhere, ids, elsewhere].map((each, at) => each.claim(REQUEST, runOf(`run ${at}`)))
      const runs = (await Promise.all(claims)).map(({ runId }) => runId)
      expect(new Set(runs).size).toBe(1)
    })

    test('the same id of another caller or agency is another request', async () => {
      const { ids, elsewhere } = await open()
      await ids.claim(REQUEST, runOf('one'))
      for (const other of [{ userId: 'eve' }, { userId: null }, { agency: 'other' }, { requestId: 'second' }]) {
        expect(await elsewhere.find({ ...REQUEST, ...other })).toBeUndefined()
        expect(await ids.claim({ ...REQUEST, ...other }, runOf('its own'))).toEqual(runOf('its own'))
      }
    })

    test('a request that is released can be claimed again', async () => {
      const { ids, elsewhere } = await open()
      await ids.claim(REQUEST, runOf('one'))
      await elsewhere.release(REQUEST)
      await elsewhere.release({ ...REQUEST, requestId: 'never claimed' })
      expect(await ids.claim(REQUEST, runOf('two'))).toEqual(runOf('two'))
    })

    test('a request is known for a day', async () => {
      const { ids, advance } = await open()
      await ids.claim(REQUEST, runOf('one'))
      await advance(86_000_000)
      expect(await ids.find(REQUEST)).toEqual(runOf('one'))
      await advance(400_000)
      expect(await ids.claim(REQUEST, runOf('two'))).toEqual(runOf('two'))
    })
  })
}
