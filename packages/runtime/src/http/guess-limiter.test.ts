import { describe, expect, test } from 'vitest'
import { GuessLimiter } from './guess-limiter.ts'

function start(perMinute = 3): { count: (address: string) => string; pass: (ms: number) => void } {
  let now = 0
  const limiter = new GuessLimiter(perMinute, () => now)
  const count = (address: string): string => {
    try {
      limiter.count(address)
      return 'refused'
    } catch (error) {
      const { code, headers } = error as { code: string; headers: Record<string, string> }
      return `${code} ${headers['Retry-After']}`
    }
  }
  return { count, pass: (ms) => void (now += ms) }
}

describe('GuessLimiter', () => {
  test('an address that tries too many waits; a wait lets one more through, a minute all of them', () => {
    const { count, pass } = start()
    const tries = (n: number): string[] => Array.from({ length: n }, () => count('192.0.2.1'))

    expect(tries(5)).toEqual(['refused', 'refused', 'refused', 'rate_limited 20', 'rate_limited 20'])
    pass(20_000)
    expect(tries(2)).toEqual(['refused', 'rate_limited 20'])
    pass(60_000)
    expect(tries(4)).toEqual(['refused', 'refused', 'refused', 'rate_limited 20'])
  })

  test.each([
    ['another address', '192.0.2.1', '192.0.2.2', false],
    ['the same address, mapped into IPv6', '192.0.2.1', '::ffff:192.0.2.1', true],
    ['the same IPv6 network', '2001:db8:1:2::1', '2001:db8:1:2:ffff:ffff:ffff:ffff', true],
    ['another IPv6 network', '2001:db8:1:2::1', '2001:db8:1:3::1', false],
    ['the same link-local address with its zone', 'fe80::1%eth0', 'fe80::1%eth1', true],
  ])('%s', (_what, first, second, isSame) => {
    const { count } = start(1)
    expect(count(first)).toBe('refused')
    expect(count(second)).toBe(isSame ? 'rate_limited 60' : 'refused')
  })

  test('any number of addresses takes a bounded amount of memory', () => {
    const { count } = start(1)
    count('192.0.2.1')
    expect(count('192.0.2.1')).toBe('rate_limited 60')
    for (let n = 0; n < 50_000; n++) count(`10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`)
    expect(count('192.0.2.1')).toBe('refused')
  })
})
