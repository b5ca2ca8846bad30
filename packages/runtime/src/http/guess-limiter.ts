import ipaddr from 'ipaddr.js'
import { isIP } from 'node:net'
import { RateLimiter, rateLimited } from './rate-limiter.ts'

/**
 * Slows whoever tries API keys or tokens: an address that has presented too many wrong ones has to wait (429) until
 * some of its minute has passed. Right ones are not counted, and are taken from any address at any time: clients behind
 * one proxy must not be able to shut each other out.
 */
export class GuessLimiter {
  readonly #wrong: RateLimiter

  /** @param perMinute Wrong credentials of one address that are answered as such. */
  constructor(perMinute: number, now?: () => number) {
    this.#wrong = new RateLimiter({ perMinute, burst: perMinute }, now)
  }

  /**
   * Counts a wrong credential; to be called before it is refused.
   *
   * @param address The client's, as `request.ip` has it.
   * @throws ServiceError `rate_limited`, in place of the refusal, when the address has presented too many.
   */
  count(address: string): void {
    const state = this.#wrong.take(networkOf(address))
    if (state.retryAfterSeconds > 0) throw rateLimited(state)
  }
}

/** IPv6 hands whole networks of 64 bits to single customers: their addresses count as one. */
function networkOf(address: string): string {
  const [plain = ''] = address.split('%')
  if (isIP(plain) !== 6) return plain
  const ip = ipaddr.process(plain)
  return ip instanceof ipaddr.IPv6 ? ip.parts.slice(0, 4).join(':') : ip.toString()
}
