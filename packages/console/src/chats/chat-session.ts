import { BureauError, type Client, type Run, type StreamEvent } from '@bureau/client'
import type { CancelMode, RunRequest } from '@bureau/protocol'
import { bodyOf, type Chat, type ChatFile, historyOf, messageOf, titleOf, type Turn } from './chat.ts'
import type { ChatStore } from './chat-store.ts'
import { timed } from './call-times.ts'

/** Text is shown at most this often: a page that renders every token is slower than a fast model. */
const COMMIT_MS = 100

export type LoggedEvent = { readonly at: number; readonly turn: string; readonly event: StreamEvent }

/** A message as somebody has written it. */
type Draft = { readonly text: string; readonly files: readonly ChatFile[] }

/** What a view shows: another object after every change. */
export type SessionView = {
  readonly chat: Chat
  readonly busy: boolean
  readonly connection: Run['connection'] | null
  /** Sent as soon as the run has ended. */
  readonly queued: Draft | null
  /** How many `events` there are. */
  readonly eventCount: number
}

/** A chat that is open in this page. It goes on whatever page is shown. */
export class ChatSession {
  readonly #client: Client<RunRequest>
  readonly #store: ChatStore
  readonly #listeners = new Set<() => void>()
  #view: SessionView
  #run: Run | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  readonly #events: LoggedEvent[] = []
  #times: Turn['times'] = {}

  constructor(chat: Chat, client: Client<RunRequest>, store: ChatStore) {
    this.#client = client
    this.#store = store
    this.#view = { chat, busy: false, connection: null, queued: null, eventCount: 0 }
    if (chat.turns.at(-1)?.status === 'running') void this.#comeBack()
  }

  get view(): SessionView {
    return this.#view
  }

  /** The events of the runs that this page has followed: one list, which grows at its end. */
  get events(): readonly LoggedEvent[] {
    return this.#events
  }

  subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed)
    return () => void this.#listeners.delete(changed)
  }

  /** Sends a message; while a run goes on, it waits for its end. */
  send(draft: Draft): void {
    if (this.#view.busy) return this.#change({ queued: draft })
    const { chat } = this.#view
    const turn = newTurn(chat, draft)
    const history = historyOf(chat)
    const title = chat.turns.length === 0 && chat.earlier.length === 0 ? titleOf(draft.text) : chat.title
    this.#change({ chat: { ...chat, title, turns: [...chat.turns, turn] }, busy: true })
    this.#save()
    const run = this.#client.stream({
      chat: chat.id,
      message: messageOf(draft),
      body: { ...bodyOf(chat.options), recipient_agent: chat.agent, chat_history: history },
    })
    void this.#follow(run, turn.id, { live: true })
  }

  unqueue(): void {
    this.#change({ queued: null })
  }

  /** Sends a message anew, changed or not; what came after it is gone. */
  resend(turnId: string, draft: Draft): void {
    const { chat, busy } = this.#view
    if (busy) return
    const at = chat.turns.findIndex(({ id }) => id === turnId)
    this.#change({ chat: { ...chat, turns: chat.turns.slice(0, at) } })
    this.send(draft)
  }

  /** @throws BureauError */
  async cancel(mode: CancelMode): Promise<void> {
    this.#change({ queued: null })
    await this.#run?.cancel(mode)
  }

  configure(changes: Partial<Pick<Chat, 'agent' | 'options' | 'title'>>): void {
    this.#change({ chat: { ...this.#view.chat, ...changes } })
    if (this.#view.chat.turns.length > 0) this.#save()
  }

  /** Goes on from what another tab has saved, unless this one is at work itself. */
  takeOver(chat: Chat): void {
    if (this.#view.busy || chat.updatedAt <= this.#view.chat.updatedAt) return
    this.#change({ chat })
    if (chat.turns.at(-1)?.status === 'running') void this.#comeBack()
  }

  /** The run that this page was following before it was loaded again. */
  async #comeBack(): Promise<void> {
    const turn = this.#view.chat.turns.at(-1)!
    this.#change({ busy: true })
    try {
      const run = await this.#client.attach({ chat: this.#view.chat.id })
      if (run) return await this.#follow(run, turn.id, { live: false })
      this.#changeTurn(turn.id, { status: 'lost', endedAt: Date.now() })
    } catch (error) {
      this.#changeTurn(turn.id, { status: 'failed', error: describe(error), endedAt: Date.now() })
    }
    this.#change({ busy: false })
    this.#save()
  }

  async #follow(run: Run, turnId: string, { live }: { readonly live: boolean }): Promise<void> {
    this.#run = run
    this.#times = {}
    const commit = (): void => this.#commit(run, turnId)
    const off = run.subscribe(() => {
      this.#timer ??= setTimeout(commit, COMMIT_MS)
    })
    void this.#log(run, turnId, live)
    void run.started.then(
      ({ run: id }) => this.#changeTurn(turnId, { run: id }),
      () => {},
    )
    const ended = await run.result.then(
      ({ status, messages, usage }) => ({ status, messages, usage, error: null }),
      (error: unknown) => ({ status: 'failed' as const, messages: [], usage: null, error: describe(error) }),
    )
    off()
    commit()
    this.#changeTurn(turnId, { ...ended, endedAt: Date.now() })
    this.#run = undefined
    const { queued } = this.#view
    this.#change({ busy: false, connection: null, queued: null })
    this.#save()
    if (queued && ended.status === 'completed') this.send(queued)
  }

  /** Keeps the events. When calls began and ended is known of runs alone that are seen while they happen. */
  async #log(run: Run, turn: string, live: boolean): Promise<void> {
    try {
      for await (const event of run) {
        const at = Date.now()
        this.#events.push({ at, turn, event })
        if (live) this.#times = timed(this.#times, event, at)
      }
    } catch {
      // The result says it too.
    }
  }

  #commit(run: Run, turnId: string): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#changeTurn(turnId, { parts: run.parts, times: this.#times })
    this.#change({ connection: run.connection, eventCount: this.#events.length })
  }

  #changeTurn(turnId: string, changes: Partial<Turn>): void {
    const { chat } = this.#view
    const turns = chat.turns.map((turn) => (turn.id === turnId ? { ...turn, ...changes } : turn))
    this.#change({ chat: { ...chat, turns } })
  }

  #change(changes: Partial<SessionView>): void {
    this.#view = { ...this.#view, ...changes }
    for (const listener of this.#listeners) listener()
  }

  #save(): void {
    this.#change({ chat: { ...this.#view.chat, updatedAt: Date.now() } })
    void this.#store.save(this.#view.chat)
  }
}

function newTurn(chat: Chat, { text, files }: Draft): Turn {
  return {
    id: `${chat.turns.length}-${Date.now()}`,
    text,
    files,
    agent: chat.agent,
    run: null,
    status: 'running',
    parts: [],
    messages: [],
    usage: null,
    error: null,
    startedAt: Date.now(),
    endedAt: null,
    times: {},
  }
}

function describe(error: unknown): Turn['error'] {
  if (error instanceof BureauError) return { code: error.code, message: error.message }
  return { code: 'internal_error', message: error instanceof Error ? error.message : String(error) }
}
