import { type Client, type Part, type Run } from '@bureau/client'
import type { CancelMode } from '@bureau/protocol'
import type { CallDecision } from '../server/approvals.ts'
import { Observable } from '../observable.ts'
import {
  added,
  begun,
  type Chat,
  type Draft,
  failureOf,
  inputOf,
  joined,
  type LoggedEvent,
  newTurn,
  NO_DRAFT,
  type SessionView,
  timed,
  titleOf,
  together,
  type Turn,
  waitsFor,
  withTurn,
} from './chat.ts'
import type { ChatStore } from './chat-store.ts'
import { decideOn, Decisions } from './decisions.ts'
import { findRun, mayBeFound } from './find-run.ts'

/** Text is shown at most this often: a page that renders every token is slower than a fast model. */
const COMMIT_MS = 100

/** A chat that is open in this page. It goes on whatever page is shown. */
export class ChatSession {
  readonly #client: Client
  readonly #store: ChatStore
  readonly shown: Observable<SessionView>
  /** What is being written. The view is without it, so that a long chat is not drawn anew for each letter. */
  readonly draft: Observable<Draft>
  #run: Run | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  readonly #events: LoggedEvent[] = []
  readonly #decisions = new Decisions()
  #times: Turn['times'] = {}
  #isForgotten = false

  constructor(chat: Chat, draft: Draft, client: Client, store: ChatStore) {
    this.#client = client
    this.#store = store
    this.shown = new Observable<SessionView>({ chat, busy: false, connection: null, queued: null, eventCount: 0 })
    this.draft = new Observable(draft)
  }

  get view(): SessionView {
    return this.shown.value
  }

  write(change: (draft: Draft) => Draft): void {
    this.draft.set(change(this.draft.value))
  }

  /** The events of the runs that this page has followed: one list, which grows at its end. */
  get events(): readonly LoggedEvent[] {
    return this.#events
  }

  /** Sends a message; while a run goes on, or waits for a person, it waits for its end. */
  send(draft: Draft): void {
    const { busy, queued, chat: before } = this.view
    if (busy || before.turns.at(-1)?.status === 'waiting') return this.#queue(together(queued ?? NO_DRAFT, draft))
    this.#isForgotten = false
    const { unsent: _, ...chat } = before
    void this.#store.keepQueued(chat.id, null)
    const turn = newTurn(chat, draft)
    const title = chat.turns.length === 0 && chat.earlier.length === 0 ? titleOf(draft.text) : chat.title
    this.#change({ chat: { ...chat, title, turns: [...chat.turns, turn], updatedAt: Date.now() }, busy: true })
    void this.#begin(chat, draft, turn.id)
  }

  /** Another tab may have sent a message meanwhile: then this one waits behind that. */
  async #begin(before: Chat, draft: Draft, turnId: string): Promise<void> {
    // It is shown already: writing thousands of messages into a request takes as long as two frames.
    if (await this.#store.begin(this.view.chat))
      return this.#follow(this.#client.stream(inputOf(before, draft)), turnId, { live: true })
    const chat = (await this.#store.find(before.id)) ?? before
    this.#change({ chat, busy: false })
    this.#queue(together(draft, this.view.queued ?? NO_DRAFT))
    await this.comeBack()
    this.#sendQueued()
  }

  /** When the page is loaded again, it is in the field. */
  #queue(queued: Draft): void {
    this.#change({ queued })
    void this.#store.keepQueued(this.view.chat.id, queued)
  }

  /** Takes the message that waits out of the queue. */
  unqueue(): Draft {
    const { queued } = this.view
    this.#change({ queued: null })
    return queued ?? NO_DRAFT
  }

  /** Adds spoken turns behind those that there are, until `end`. */
  talk(): { readonly show: (turns: readonly Turn[]) => void; readonly end: () => void } {
    const { turns: before } = this.view.chat
    this.#change({ busy: true })
    return {
      show: (turns) => {
        const { chat } = this.view
        const asked = before.length === 0 ? turns[0]?.text : undefined
        const title = asked === undefined ? chat.title : titleOf(asked)
        this.#change({ chat: { ...chat, title, turns: [...before, ...turns] } })
        this.#save()
      },
      end: () => this.#change({ busy: false }),
    }
  }

  /** Sends a message anew, changed or not; it and what came after it are gone. */
  replace(turnId: string, draft: Draft): void {
    const { chat, busy } = this.view
    if (busy) return
    const at = chat.turns.findIndex(({ id }) => id === turnId)
    this.#change({ chat: { ...chat, turns: chat.turns.slice(0, at) } })
    void this.#store.cut(chat.id, at)
    this.send(draft)
  }

  /** @throws BureauError */
  async cancel(mode: CancelMode): Promise<void> {
    await this.#run?.cancel(mode)
  }

  /**
   * Decides on a call that waits; the run goes on once all are decided on.
   *
   * @throws BureauError e.g. because somebody else has decided.
   */
  async decide(callId: string, decision: CallDecision): Promise<void> {
    const turn = this.view.chat.turns.at(-1)
    if (turn?.status !== 'waiting') throw new Error('This call does not wait any more.')
    const run = this.#run
    const show = (change: (parts: Turn['parts']) => Turn['parts']): void =>
      this.#changeTurn(turn.id, { parts: change(this.#turn(turn.id).parts) })
    const next = run
      ? // When the last decision is refused, those before it are not made either.
        await decideOn(run, callId, decision).finally(() => show((parts) => joined(parts, run.parts)))
      : await this.#decisions.decide(this.#client, this.view.chat, { callId, ...decision })
    show((parts) => parts.map((part) => (part.id === callId ? begun(part) : part)))
    if (!next) return
    this.#changeTurn(turn.id, { status: 'running', endedAt: null })
    this.#change({ busy: true })
    void this.#follow(next, turn.id, { live: true })
  }

  configure(changes: Partial<Pick<Chat, 'agent' | 'options' | 'title'>>): void {
    this.#change({ chat: { ...this.view.chat, ...changes } })
    if (this.view.chat.turns.length > 0) this.#save()
  }

  /** Goes on from what another tab has saved. While this one is at work itself, it has its own turns. */
  takeOver(chat: Chat): void {
    const { busy, chat: own } = this.view
    if (chat.updatedAt <= own.updatedAt && chat.turns.length <= own.turns.length) return
    const { turns: _, ...head } = chat
    this.#change({ chat: busy ? { ...own, ...head } : chat })
    if (busy) return
    // Of a run that waits, each tab keeps what it has replayed: each would take over what the other keeps, for ever.
    const calls = waitsFor(chat.turns.at(-1))
    if (calls !== '' && calls === waitsFor(own.turns.at(-1))) return
    void this.comeBack().then(() => this.#sendQueued())
  }

  /** The chat is deleted: what comes of its run is not kept, unless somebody goes on with it where it is still shown. */
  forget(): void {
    this.#isForgotten = true
  }

  detach(): void {
    this.#run?.detach()
  }

  /** Follows the run that this page was following before it was loaded again, if there is one. */
  async comeBack(): Promise<void> {
    const { chat } = this.view
    const turn = chat.turns.at(-1)
    this.#run = undefined
    this.#decisions.clear()
    if (turn?.status !== 'running' && turn?.status !== 'waiting') return
    this.#change({ busy: true })
    try {
      const run = await findRun(this.#client, this.#store, chat)
      if (run) {
        // The platform replays it from its start; elsewhere what comes of an approval is a run of its own.
        const before = chat.platform ? { messages: [], usage: null } : { parts: turn.parts.map(begun) }
        this.#changeTurn(turn.id, { status: 'running', ...before })
        return await this.#follow(run, turn.id, { live: false })
      }
      // Another tab may have seen its end; what a call that waits needs is kept in the chat.
      const kept = (await this.#store.find(chat.id)) ?? chat
      const isLost = kept.turns.at(-1)?.status === 'running'
      const lost = { status: 'lost', messages: [], endedAt: Date.now() } as const
      this.#change({ chat: isLost ? withTurn(kept, turn.id, lost) : kept })
      if (isLost) this.#save()
    } catch (error) {
      // It is kept as it was: a page that may ask for it finds it again.
      this.#changeTurn(turn.id, { status: 'failed', error: failureOf(error), endedAt: Date.now() })
    }
    this.#change({ busy: false })
  }

  /** @param following - `live`: no event of before comes again. */
  async #follow(run: Run, turnId: string, { live }: { live: boolean }): Promise<void> {
    this.#run = run
    this.#times = {}
    const { messages, parts } = this.#turn(turnId)
    // What a run has said is there when it has ended: then this one continues it.
    const before = messages.length === 0 ? [] : parts
    const commit = (): void => this.#commit(run, turnId, before)
    const off = run.subscribe(() => {
      this.#timer ??= setTimeout(commit, COMMIT_MS)
    })
    void this.#log(run, turnId, live)
    void run.started.then(
      ({ run: id }) => {
        this.#changeTurn(turnId, { run: id })
        // Other tabs follow it too, also one that shows the calls that it goes on with.
        if (live) this.#save()
      },
      () => {},
    )
    const ended = await run.result.then(
      ({ status, messages, usage }) => ({ status, messages, usage, error: null }),
      async (error: unknown) => {
        const failure = { status: 'failed' as const, messages: [], usage: null, error: failureOf(error) }
        return (await mayBeFound(failure.error.code)) ? null : failure
      },
    )
    off()
    commit()
    if (!ended) return this.comeBack()
    // The platform reports all of a run, also after an approval.
    const all = this.view.chat.platform ? ended : added(this.#turn(turnId), ended)
    const shown = joined(before, run.parts, all.messages)
    this.#changeTurn(turnId, { ...ended, ...all, endedAt: Date.now(), parts: shown })
    if (ended.status !== 'waiting') this.#run = undefined
    this.#next()
  }

  /** Nothing goes on any more: a message that has waited is sent, unless the run was stopped, failed or waits itself. */
  #next(): void {
    this.#change({ busy: false, connection: null })
    this.#save()
    this.#sendQueued()
  }

  #sendQueued(): void {
    const { busy, queued, chat } = this.view
    if (!busy && queued && chat.turns.at(-1)?.status === 'completed') this.send(this.unqueue())
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

  #commit(run: Run, turnId: string, before: readonly Part[]): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const chat = withTurn(this.view.chat, turnId, { parts: joined(before, run.parts), times: this.#times })
    this.#change({ chat, connection: run.connection, eventCount: this.#events.length })
  }

  #turn(turnId: string): Turn {
    return this.view.chat.turns.find(({ id }) => id === turnId)!
  }

  #changeTurn(turnId: string, changes: Partial<Turn>): void {
    this.#change({ chat: withTurn(this.view.chat, turnId, changes) })
  }

  #change(changes: Partial<SessionView>): void {
    this.shown.set({ ...this.view, ...changes })
  }

  #save(): void {
    if (this.#isForgotten) return
    this.#change({ chat: { ...this.view.chat, updatedAt: Date.now() } })
    void this.#store.save(this.view.chat)
  }
}
