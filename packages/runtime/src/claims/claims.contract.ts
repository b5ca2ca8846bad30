import { describe, expect, test } from 'vitest'
import type { Claims } from './claims.ts'

type ClaimsUnderTest = {
  readonly claims: Claims
  /** The same claims as another process sees them, or this one after a restart. */
  readonly elsewhere: Claims
}

/** What every implementation of {@link Claims} must do. */
export function describeClaims(name: string, open: () => Promise<ClaimsUnderTest>): void {
  const soon = (): number => Date.now() + 60_000

  describe(`claims: ${name}`, () => {
    test('an id is claimed once, on any process; other ids are others', async () => {
      const { claims, elsewhere } = await open()
      expect(await claims.claim('a', soon())).toBe(true)
      expect(await claims.claim('a', soon())).toBe(false)
      expect(await elsewhere.claim('a', soon())).toBe(false)
      expect(await elsewhere.claim('b', soon())).toBe(true)
    })

    test('of many who claim it at once one succeeds', async () => {
      const { claims, elsewhere } = await open()
      const all = await Promise.all([claims, elsewhere, claims, elsewhere].map((each) => each.claim('a', soon())))
      expect(all.filter(Boolean)).toHaveLength(1)
    })

    test('a claim that is released can be made again', async () => {
      const { claims, elsewhere } = await open()
      await claims.claim('a', soon())
      await elsewhere.release('a')
      await elsewhere.release('never claimed')
      expect(await claims.claim('a', soon())).toBe(true)
    })

    test('ids may be of any length and hold anything', async () => {
      const { claims } = await open()
      for (const id of ['', '../a', 'a\0b', '\ud800', 'A'.repeat(100_000)]) {
        expect(await claims.claim(id, soon())).toBe(true)
        expect(await claims.claim(id, soon())).toBe(false)
      }
    })
  })
}
