import { ENGINES } from '@bureau/platform/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TEST_REDIS_URL, testRedisReachable } from '../support/test-redis.ts'
import { Fleet } from './fleet.ts'

describe.runIf(ENGINES.includes('postgres') && (await testRedisReachable()))(
  `three processes behind a load balancer, with Redis at ${TEST_REDIS_URL}`,
  () => {
    let fleet: Fleet
    beforeAll(async () => {
      fleet = await Fleet.open({ clients: 12, seed: 1 })
    })
    afterAll(() => fleet.close())

    test('are killed and replaced one after the other, and no page shows it', async () => {
      await fleet.load.start()
      await fleet.warmUp()
      const { takenUpMs } = await fleet.kill(0)
      const stops = await fleet.roll()

      expect(await fleet.problems()).toEqual([])
      expect(takenUpMs.length).toBeGreaterThan(0)
      expect(Math.max(...takenUpMs)).toBeLessThan(15_000)
      expect(stops.map(({ exit }) => exit)).toEqual([0, 0, 0])
      expect(Math.max(...stops.map(({ overdueMs }) => overdueMs))).toBeLessThan(8_000)
      expect(fleet.load.finished).toBeGreaterThan(12)
    })
  },
)
