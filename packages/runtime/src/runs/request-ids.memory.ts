import { type NamedRequest, REQUEST_ID_MS, requestDigest, type RequestedRun, type RequestIds } from './request-ids.ts'

/** About 15 MB. The oldest ids are forgotten beyond this number. */
const MAX_REQUESTS = 50_000

/** Embedded: the requests of this process. */
export class MemoryRequestIds implements RequestIds {
  readonly #now: () => number
  /** In the order in which they came, which is that in which they expire. */
  readonly #runs = new Map<string, { readonly run: RequestedRun; readonly expiresAt: number }>()

  /** `now` answers monotonic milliseconds: a clock that is set must not change how long anything counts. */
  constructor(options: { readonly now?: () => number } = {}) {
    this.#now = options.now ?? (() => performance.now())
  }

  async claim(request: NamedRequest, run: RequestedRun): Promise<RequestedRun> {
    this.#forgetOld()
    const digest = requestDigest(request)
    const known = this.#runs.get(digest)
    if (known) return known.run
    this.#runs.set(digest, { run, expiresAt: this.#now() + REQUEST_ID_MS })
    return run
  }

  async find(request: NamedRequest): Promise<RequestedRun | undefined> {
    this.#forgetOld()
    return this.#runs.get(requestDigest(request))?.run
  }

  async release(request: NamedRequest): Promise<void> {
    this.#runs.delete(requestDigest(request))
  }

  /** Looks at the oldest only, so that many ids do not make one expensive. */
  #forgetOld(): void {
    for (const [digest, { expiresAt }] of this.#runs) {
      if (expiresAt > this.#now() && this.#runs.size <= MAX_REQUESTS) return
      this.#runs.delete(digest)
    }
  }
}
