import type { Message } from '@bureau/protocol'

/** Where the ids of unfinished runs are kept, as `localStorage` keeps them. */
export type RunStorage = {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/**
 * What a page needs to find its run again after a reload. Positions are not kept: the run is replayed. For a server that
 * keeps no history also what was sent, and how many messages the chat had `before`; of a run that goes on after approvals, and
 * has said something already, also how many it had when it was `asked`.
 */
export type StoredRun = Unanswered & { readonly before?: number | undefined; readonly asked?: number | undefined }

/** A message, the request that it was sent with, and the run that had begun. */
export type Unanswered = {
  readonly message?: unknown
  readonly request?: string | null | undefined
  readonly run?: string | undefined
}

/** The messages of chats, by name: a Map, or what keeps them longer. */
export type Histories = {
  get(chat: string): readonly Message[] | undefined
  set(chat: string, messages: readonly Message[]): unknown
}

/**
 * Histories that outlive a reload, in the page's `localStorage` or another storage. What a full one cannot keep is there as long as
 * the page, as are all where a page may have none.
 */
export function historiesIn(storage: RunStorage | undefined = storageOfPage()): Histories {
  const unkept = new Map<string, readonly Message[]>()
  if (!storage) return unkept
  const keyOf = (chat: string): string => `bureau-history:${chat}`
  return {
    get: (chat) => unkept.get(chat) ?? (JSON.parse(storage.getItem(keyOf(chat)) ?? '[]') as Message[]),
    set(chat, messages) {
      unkept.delete(chat)
      try {
        storage.setItem(keyOf(chat), JSON.stringify(messages))
      } catch {
        unkept.set(chat, messages)
        storage.removeItem(keyOf(chat))
      }
    },
  }
}

/** The unfinished run of each chat. A storage that is full or forbidden keeps nothing, and no run fails for it. */
export class RunStore {
  readonly #storage: RunStorage | false | undefined
  readonly #prefix: string

  /** @param server Pages of several servers may share a storage. */
  constructor(server: string, storage: RunStorage | false | undefined = storageOfPage()) {
    this.#storage = storage
    this.#prefix = `bureau:${server}:`
  }

  get(chat: string): StoredRun {
    return this.#try((storage) => JSON.parse(storage.getItem(this.#prefix + chat) ?? '{}') as StoredRun) || {}
  }

  set(chat: string, run: StoredRun): void {
    this.#try((storage) => storage.setItem(this.#prefix + chat, JSON.stringify({ chat, ...run })))
  }

  /** Unless another run has begun in the chat meanwhile. A request that began none gives its place back to the run that it `found`. */
  remove(chat: string, { request, run }: StoredRun, found?: StoredRun): void {
    const stored = this.get(chat)
    if (run && stored.run ? stored.run !== run : stored.request !== request) return
    if (!run && found?.run) this.set(chat, found)
    else this.#try((storage) => storage.removeItem(this.#prefix + chat))
  }

  #try<Result>(work: (storage: RunStorage) => Result): Result | false | undefined {
    try {
      return this.#storage && work(this.#storage)
    } catch {
      return undefined
    }
  }
}

/** Node has a storage of that name too, which is no page's and warns when it is looked at. */
function storageOfPage(): RunStorage | undefined {
  const page = globalThis as { readonly document?: object; readonly localStorage?: RunStorage }
  try {
    return page.document && page.localStorage
  } catch {
    return undefined
  }
}
