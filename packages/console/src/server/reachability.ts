import { useSyncExternalStore } from 'react'
import { addressOf } from './address.ts'

/** Whether the server can be reached. */
class Reachability {
  #isLost = false
  readonly #listeners = new Set<() => void>()

  get isLost(): boolean {
    return this.#isLost
  }

  report(isLost: boolean): void {
    if (isLost === this.#isLost) return
    this.#isLost = isLost
    for (const listener of this.#listeners) listener()
  }

  /** Resolves when the server has been reached again. */
  reached(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const off = this.subscribe(() => {
      off()
      resolve()
    })
    return promise
  }

  subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed)
    return () => void this.#listeners.delete(changed)
  }
}

export const reachability = new Reachability()

/** True from the first time that the server cannot be reached until it answers something. */
export const useIsServerLost = (): boolean => useSyncExternalStore(reachability.subscribe, () => reachability.isLost)

/** `fetch`, which notices whether the server can be reached: everything that the console asks goes through here. */
export const watchedFetch: typeof fetch = async (input, init) => {
  try {
    const response = await fetch(input, withLongBody(init))
    reachability.report(false)
    return response
  } catch (error) {
    // A request that was given up says nothing of the server, and one that fails alone is a matter of its page.
    if (!init?.signal?.aborted && !reachability.isLost) void isServerThere()
    throw error
  }
}

const LONG = 65_536

/** The browser converts and copies a text while the page waits, tens of milliseconds for one of a megabyte; a blob waits for it. */
function withLongBody(init: RequestInit | undefined): RequestInit | undefined {
  const { body } = init ?? {}
  return typeof body === 'string' && body.length > LONG ? { ...init, body: new Blob([body]) } : init
}

/** Asks for what the server says of itself to everybody, to notice whether it is there. */
export async function isServerThere(): Promise<boolean> {
  const isThere = await fetch(addressOf('console/server.json')).then(
    () => true,
    () => false,
  )
  reachability.report(!isThere)
  return isThere
}
