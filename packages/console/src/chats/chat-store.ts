import { SERVER } from '../server/address.ts'
import { Observable } from '../observable.ts'
import { type Chat, type Draft, newChatId, type Turn } from './chat.ts'

const CHATS = 'chats'
const TURNS = 'turns'

type KeptChat = Omit<Chat, 'turns'> & Pick<ChatHead, 'waits'>
type ChatChange = { readonly id: string; readonly isDeleted: boolean }
type KeptTurn = { readonly chat: string; readonly at: number; readonly turn: Turn }
/** It is kept with the turns, at the tab that it waits in: what other tabs save of the chat leaves it as it is. */
type KeptQueue = { readonly chat: string; readonly at: string; readonly queued: Draft }

export type ChatHead = Pick<Chat, 'id' | 'agency' | 'platform' | 'title' | 'updatedAt'> & {
  /** The last run waits until somebody has decided on its calls. */
  readonly waits: boolean
}

/**
 * The chats of this browser with this server, in its IndexedDB. Where that is forbidden, chats last as long as the page.
 */
export class ChatStore {
  /** Counts how often a chat was saved or deleted, in any tab. */
  readonly changes = new Observable(0)
  #opening = openDatabase()
  readonly #unkept = new Map<string, Chat>()
  /** Where turns are kept as they are: a turn never changes, another one takes its place. */
  #kept = new WeakMap<Turn, KeptTurn>()
  readonly #others = new BroadcastChannel(`bureau:chats:${SERVER}`)

  constructor() {
    this.onChangedElsewhere(({ isDeleted }) => {
      // Whoever goes on with a chat that is gone keeps all of it again.
      if (isDeleted) this.#kept = new WeakMap()
      this.#count()
    })
  }

  /** Calls `changed` when another tab has saved or deleted a chat. */
  onChangedElsewhere(changed: (change: ChatChange) => void): void {
    this.#others.addEventListener('message', ({ data }) => changed(data as ChatChange))
  }

  /** Those of an agency, or of all, latest first. */
  async list(agency?: string): Promise<ChatHead[]> {
    const transaction = await this.#begin('readonly')
    const heads = transaction
      ? await settled<KeptChat[]>(transaction.objectStore(CHATS).getAll())
      : [...this.#unkept.values()].map(keptOf)
    return heads
      .filter((chat) => (agency ?? chat.agency) === chat.agency)
      .map(({ id, agency: name, platform, title, updatedAt, waits }) => {
        return { id, agency: name, ...(platform && { platform }), title, updatedAt, waits }
      })
      .toSorted((a, b) => b.updatedAt - a.updatedAt)
  }

  async find(id: string): Promise<Chat | undefined> {
    const transaction = await this.#begin('readonly')
    if (!transaction || this.#unkept.has(id)) return this.#unkept.get(id)
    const [chat, turns] = await Promise.all([
      settled<KeptChat | undefined>(transaction.objectStore(CHATS).get(id)),
      settled<KeptTurn[]>(transaction.objectStore(TURNS).getAll(turnsFrom(id, 0))),
    ])
    if (!chat) return undefined
    for (const kept of turns) this.#kept.set(kept.turn, kept)
    const { waits: _, ...rest } = chat
    return { ...rest, turns: turns.map(({ turn }) => turn) }
  }

  async save(chat: Chat): Promise<void> {
    await this.#write(chat, await this.#begin('readwrite'))
  }

  /**
   * Keeps a chat whose last turn begins.
   *
   * @returns False: another tab has begun one in its place, and nothing was written.
   */
  async begin(chat: Chat): Promise<boolean> {
    const transaction = await this.#begin('readwrite')
    const place = [chat.id, chat.turns.length - 1]
    const isTaken = transaction && (await settled(transaction.objectStore(TURNS).getKey(place))) !== undefined
    if (isTaken) return false
    await this.#write(chat, transaction)
    return true
  }

  /** Keeps the message that waits in this tab for the end of a run; null: none does. */
  async keepQueued(id: string, queued: Draft | null): Promise<void> {
    const turns = (await this.#begin('readwrite'))?.objectStore(TURNS)
    if (queued) turns?.put({ chat: id, at: TAB, queued } satisfies KeptQueue)
    else turns?.delete([id, TAB])
  }

  async findQueued(id: string): Promise<Draft | undefined> {
    const turns = (await this.#begin('readonly'))?.objectStore(TURNS)
    return turns && (await settled<KeptQueue | undefined>(turns.get([id, TAB])))?.queued
  }

  /** Takes out the turns from one on. */
  async cut(id: string, at: number): Promise<void> {
    const transaction = await this.#begin('readwrite')
    transaction?.objectStore(TURNS).delete(turnsFrom(id, at))
  }

  async remove(id: string): Promise<void> {
    this.#unkept.delete(id)
    const transaction = await this.#begin('readwrite')
    transaction?.objectStore(CHATS).delete(id)
    transaction?.objectStore(TURNS).delete(IDBKeyRange.bound([id], [id, []]))
    if (transaction) await completed(transaction)
    this.#changed({ id, isDeleted: true })
  }

  async #begin(mode: 'readonly' | 'readwrite'): Promise<IDBTransaction | undefined> {
    const begin = async (): Promise<IDBTransaction | undefined> =>
      (await this.#opening)?.transaction([CHATS, TURNS], mode)
    return begin().catch(() => {
      // A browser may close the database at any time, for example because what it keeps is cleared.
      this.#kept = new WeakMap()
      this.#opening = openDatabase()
      return begin().catch(() => undefined)
    })
  }

  /** Writes the turns that have changed: copying a chat of thousands would hold the page up. */
  async #write(chat: Chat, transaction: IDBTransaction | undefined): Promise<void> {
    try {
      if (!transaction) throw new Error('chats cannot be kept')
      transaction.objectStore(CHATS).put(keptOf(chat))
      const turns = transaction.objectStore(TURNS)
      const changed: KeptTurn[] = []
      for (const [at, turn] of chat.turns.entries()) {
        const before = this.#kept.get(turn)
        if (before?.at !== at || before.chat !== chat.id) changed.push({ chat: chat.id, at, turn })
      }
      for (const kept of changed) turns.put(kept)
      await completed(transaction)
      for (const kept of changed) this.#kept.set(kept.turn, kept)
    } catch {
      this.#unkept.set(chat.id, chat)
    }
    this.#changed({ id: chat.id, isDeleted: false })
  }

  #changed(change: ChatChange): void {
    this.#others.postMessage(change)
    this.#count()
  }

  #count(): void {
    this.changes.set(this.changes.value + 1)
  }
}

function keptOf({ turns, ...chat }: Chat): KeptChat {
  return { ...chat, waits: turns.at(-1)?.status === 'waiting' }
}

const turnsFrom = (chat: string, at: number): IDBKeyRange => IDBKeyRange.bound([chat, at], [chat, Infinity])

const TAB = tabId()

/** The same when the page is loaded again, unless the browser forbids pages to keep anything. */
function tabId(): string {
  const key = 'bureau:tab'
  try {
    const id = sessionStorage.getItem(key) ?? newChatId()
    sessionStorage.setItem(key, id)
    return id
  } catch {
    return newChatId()
  }
}

/** Undefined where that is forbidden. */
async function openDatabase(): Promise<IDBDatabase | undefined> {
  try {
    const opening = indexedDB.open(`bureau:${SERVER}`, 2)
    opening.addEventListener('upgradeneeded', () => {
      const { result: database } = opening
      if (database.objectStoreNames.contains(CHATS)) database.deleteObjectStore(CHATS)
      database.createObjectStore(CHATS, { keyPath: 'id' })
      database.createObjectStore(TURNS, { keyPath: ['chat', 'at'] })
    })
    return await settled(opening)
  } catch {
    return undefined
  }
}

function completed(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.addEventListener('complete', () => resolve())
    transaction.addEventListener('abort', () => reject(transaction.error ?? new Error('IndexedDB failed')))
  })
}

function settled<Result>(request: IDBRequest<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    request.addEventListener('success', () => resolve(request.result))
    request.addEventListener('error', () => reject(request.error ?? new Error('IndexedDB failed')))
  })
}
