import { SERVER } from '../server/address.ts'
import type { Chat } from './chat.ts'

const STORE = 'chats'

export type ChatHead = Pick<Chat, 'id' | 'agency' | 'platform' | 'title' | 'updatedAt'> & {
  /** The last run waits until somebody has decided on its calls. */
  readonly waits: boolean
}

/**
 * The chats of this browser with this server, in its IndexedDB. Where that is forbidden, chats last as long as the page.
 */
export class ChatStore {
  readonly #opening = openDatabase(`bureau:${SERVER}`).catch(() => undefined)
  readonly #unkept = new Map<string, Chat>()
  readonly #others = new BroadcastChannel(`bureau:chats:${SERVER}`)
  readonly #listeners = new Set<() => void>()

  constructor() {
    this.onChangedElsewhere(() => this.#notify())
  }

  /** Calls `changed` when a chat was saved or deleted, in any tab. */
  subscribe(changed: () => void): () => void {
    this.#listeners.add(changed)
    return () => void this.#listeners.delete(changed)
  }

  /** Calls `changed` with the id of a chat that another tab has saved or deleted. */
  onChangedElsewhere(changed: (id: string) => void): void {
    this.#others.addEventListener('message', ({ data }) => changed(String(data)))
  }

  /** Those of an agency, or of all, latest first. */
  async list(agency?: string): Promise<ChatHead[]> {
    const chats = (await this.#ask<Chat[]>('readonly', (store) => store.getAll())) ?? [...this.#unkept.values()]
    return chats
      .filter((chat) => (agency ?? chat.agency) === chat.agency)
      .map(({ id, agency: name, platform, title, updatedAt, turns }) => {
        const waits = turns.at(-1)?.status === 'waiting'
        return { id, agency: name, ...(platform && { platform }), title, updatedAt, waits }
      })
      .toSorted((a, b) => b.updatedAt - a.updatedAt)
  }

  async find(id: string): Promise<Chat | undefined> {
    return (await this.#ask<Chat | undefined>('readonly', (store) => store.get(id))) ?? this.#unkept.get(id)
  }

  async save(chat: Chat): Promise<void> {
    const saved = await this.#ask('readwrite', (store) => store.put(chat)).catch(() => undefined)
    if (saved === undefined) this.#unkept.set(chat.id, chat)
    this.#changed(chat.id)
  }

  async remove(id: string): Promise<void> {
    this.#unkept.delete(id)
    await this.#ask('readwrite', (store) => store.delete(id))
    this.#changed(id)
  }

  #changed(id: string): void {
    this.#others.postMessage(id)
    this.#notify()
  }

  #notify(): void {
    for (const listener of this.#listeners) listener()
  }

  async #ask<Answer>(
    mode: IDBTransactionMode,
    request: (store: IDBObjectStore) => IDBRequest<Answer> | IDBRequest,
  ): Promise<Answer | undefined> {
    const database = await this.#opening
    return database && (settled(request(database.transaction(STORE, mode).objectStore(STORE))) as Promise<Answer>)
  }
}

function openDatabase(name: string): Promise<IDBDatabase> {
  const opening = indexedDB.open(name, 1)
  opening.addEventListener('upgradeneeded', () => opening.result.createObjectStore(STORE, { keyPath: 'id' }))
  return settled(opening)
}

function settled<Result>(request: IDBRequest<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    request.addEventListener('success', () => resolve(request.result))
    request.addEventListener('error', () => reject(request.error ?? new Error('IndexedDB failed')))
  })
}
