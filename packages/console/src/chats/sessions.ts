import { type Client, createClient } from '@bureau/client'
import type { Message } from '@bureau/protocol'
import { createContext, useContext } from 'react'
import { addressOf, SERVER } from '../server/address.ts'
import { credentials } from '../server/credentials.ts'
import { watchedFetch } from '../server/reachability.ts'
import { useValue } from '../observable.ts'
import { type Chat, type Draft, historyOf, newChat, NO_DRAFT, type Partner, type SessionView } from './chat.ts'
import { ChatSession } from './chat-session.ts'
import { ChatStore } from './chat-store.ts'

/** The chats that are open in this page, by their ids. */
export class Sessions {
  readonly store = new ChatStore()
  readonly #open = new Map<string, Promise<ChatSession>>()
  readonly #live = new Map<string, ChatSession>()

  constructor() {
    this.store.onChangedElsewhere(({ id, isDeleted }) => {
      if (isDeleted) this.#live.get(id)?.forget()
      else void this.#takeOver(id)
    })
  }

  /** The chat of this id, which is a new one when there is none. */
  open(partner: Partner, id: string): Promise<ChatSession> {
    const known = this.#open.get(id)
    if (known) return known
    const opening = Promise.all([this.store.find(id), this.store.findQueued(id)]).then(([chat, queued]) =>
      this.#begin(chat ?? newChat(partner, id), queued),
    )
    this.#open.set(id, opening)
    return opening
  }

  /** Begins a chat that continues something. */
  begin(chat: Chat): ChatSession {
    const session = this.#begin(chat)
    this.#open.set(chat.id, Promise.resolve(session))
    void this.store.save(chat)
    return session
  }

  /** The latest chat of an agency that has something to show now. */
  latest(agency: string): ChatSession | undefined {
    return [...this.#live.values()].findLast(({ view }) => view.chat.agency === agency && view.chat.turns.length > 0)
  }

  async remove(id: string): Promise<void> {
    const session = this.#live.get(id)
    session?.forget()
    session?.detach()
    this.#open.delete(id)
    this.#live.delete(id)
    await this.store.remove(id)
  }

  /** Another tab has gone on with a chat that is open here as well. */
  async #takeOver(id: string): Promise<void> {
    const session = this.#live.get(id)
    const chat = session && (await this.store.find(id))
    if (chat) session.takeOver(chat)
  }

  #begin(chat: Chat, draft: Draft = chat.unsent ?? NO_DRAFT): ChatSession {
    const client = clientOf(chat, () => historyOf(session.view.chat))
    const session: ChatSession = new ChatSession(chat, draft, client, this.store)
    this.#live.set(chat.id, session)
    void session.comeBack()
    return session
  }
}

export const platformClient = (integration: string): Client =>
  createClient({ url: SERVER, integration, token: () => credentials.value.platform ?? '', fetch: watchedFetch })

function clientOf({ agency, platform }: Partner, history: () => readonly Message[]): Client {
  if (platform) return platformClient(agency)
  return createClient({
    url: addressOf(encodeURIComponent(agency)),
    headers: () => authorization(),
    fetch: watchedFetch,
    resume: true,
    histories: { get: history, set: () => undefined },
  })
}

function authorization(): Record<string, string> {
  const { server } = credentials.value
  return server === undefined ? {} : { authorization: `Bearer ${server}` }
}

export const SessionsContext = createContext<Sessions | undefined>(undefined)

export function useSessions(): Sessions {
  const sessions = useContext(SessionsContext)
  if (!sessions) throw new Error('there are no sessions around this component')
  return sessions
}

export const useSession = (session: ChatSession): SessionView => useValue(session.shown)

/** What is being written in a chat. */
export const useDraft = (session: ChatSession): Draft => useValue(session.draft)
