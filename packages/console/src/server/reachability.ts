import { Observable, useValue } from '../observable.ts'
import { addressOf } from './address.ts'

/** True from the first time that the server cannot be reached until it answers something. */
const isLost = new Observable(false)

export const useIsServerLost = (): boolean => useValue(isLost)

/** Reads something from the server, such as code of this page that is needed now. While the server cannot be reached, that waits. */
export async function whenReached<Part>(read: () => Promise<Part>): Promise<Part> {
  try {
    return await read()
  } catch (error) {
    if (await isServerThere()) throw error
    await serverReached()
    return whenReached(read)
  }
}

/** Resolves when the server has been reached again. */
function serverReached(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const off = isLost.subscribe(() => {
    off()
    resolve()
  })
  return promise
}

/** `fetch`, which notices whether the server can be reached: everything that the console asks goes through here. */
export const watchedFetch: typeof fetch = async (input, init) => {
  try {
    const response = await fetch(input, withLongBody(init))
    isLost.set(false)
    return response
  } catch (error) {
    // A request that was given up says nothing of the server, and one that fails alone is a matter of its page.
    if (!init?.signal?.aborted && !isLost.value) void isServerThere()
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
  isLost.set(!isThere)
  return isThere
}
