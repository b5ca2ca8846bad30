import { BureauError, type Client, type HistoryEntry, type Input, onWake, randomId, type Run } from '@bureau/client'
import { asBureauError, type ConversationState, type PastMessage, pastMessages, unansweredOf } from './messages.ts'
import { foundTurn, isDecidedElsewhere, runActive, Turn, unansweredTurn } from './turn.ts'

/** Streamed text is shown at most this often. */
const SHOWN_EVERY_MS = 50

/** One chat: its history, the messages sent from here, and the runs that answer them. It knows no view. */
export class Conversation {
  readonly #client: Client
  readonly #chat: string
  /** Nothing is known of the chat anywhere, until something is sent. */
  readonly #isNew: boolean
  readonly #listeners = new Set<() => void>()
  #entries: readonly HistoryEntry[] = []
  #past: readonly PastMessage[] = []
  #cursor: string | null = null
  #turns: Turn[] = []
  #isResuming = true
  #isLoaded = false
  #error: BureauError | null = null
  #usage: ConversationState['usage'] = null
  #shown = this.#current()
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Another one for each time that the conversation is opened. */
  #opening = {}
  #lastId = 0

  /** @param chat Default: a new one. */
  constructor(client: Client, chat?: string) {
    this.#client = client
    this.#chat = chat ?? randomId()
    this.#isNew = chat === undefined
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  readonly state = (): ConversationState => this.#shown

  /** Loads the history and follows the unfinished run. Returns what ends it; the run itself goes on. */
  open(): () => void {
    this.#opening = {}
    void this.#load()
    const off = onWake(() => void this.#guard(() => this.#lookAgain()))
    return () => {
      off()
      this.#opening = {}
      for (const { run } of this.#turns) run?.detach()
    }
  }

  /**
   * Sends a message, and resolves when its run is over or waits; a failure is in the state. While there is another run,
   * the message is kept until that is over.
   *
   * @throws BureauError `run_active`: there is a run, and `queues` is false.
   */
  async send(message: string | Input, queues: boolean): Promise<void> {
    if (!queues && this.#turns.some(({ isOpen, isQueued }) => isOpen || isQueued)) throw runActive()
    const turn = new Turn(this.#newId(), typeof message === 'string' ? { message } : message, queues)
    this.#turns.push(turn)
    this.#show()
    void this.#next()
    void this.#guard(() => this.#lookAgain())
    await turn.settled
  }

  /** Stops the run at the server. */
  cancel(mode?: 'immediate' | 'after_turn'): Promise<void> {
    return this.#guard(async () => {
      const turn = this.#open
      await turn?.run?.cancel(mode)
      if (turn?.state === 'waiting') this.#finish(turn, 'cancelled')
    })
  }

  /** Decides on a call that waits; `decide` is what to do with its run. */
  decide(callId: string, decide: (run: Run) => Promise<Run | null>): Promise<void> {
    return this.#guard(async () => {
      const turn = this.#turns.find(({ approvals }) => approvals.some(({ call_id: id }) => id === callId))
      if (!turn?.run) throw new BureauError('approval_not_found', `No call ${callId} waits for an approval.`)
      const next = await decide(turn.run).catch((error: unknown) => this.#decidedElsewhere(error))
      return next ? this.#follow(turn, next) : this.#show()
    })
  }

  /** Sends the last message again when it failed; after a lost connection its run is looked for first. */
  retry(): Promise<void> {
    return this.#guard(async () => {
      const turn = this.#turns.at(-1)
      if (turn && turn.state !== 'failed') return
      if (!turn && !this.#isLoaded) return this.#load()
      const lost = turn?.error?.code === 'connection_lost' ? turn.error.run : undefined
      const run = lost === undefined ? null : await this.#client.attach({ run: lost, chat: this.#chat })
      if (turn && run) return this.#follow(turn, run)
      const message = turn ? this.#turns.pop()?.again : unansweredOf(this.#past)
      if (message !== undefined) await this.send(message, true)
    })
  }

  /** Puts another text in the place of a message, and sends it: what came after it is gone. */
  edit(messageId: string, text: string): Promise<void> {
    return this.#guard(async () => {
      const { histories } = this.#client
      if (!histories) {
        throw new BureauError('not_supported', 'The platform keeps a chat as it was: send the new text as a message.')
      }
      const place = this.#turns.findIndex(({ id }) => id === messageId)
      const edited = this.#turns[place]
      const at = edited?.at ?? this.#past.find(({ id }) => id === messageId)?.at
      if (at === undefined) throw new BureauError('not_found', `There is no message ${messageId}.`)
      const isSent = !edited?.isQueued
      const unsent = this.#turns.filter(({ isQueued }, index) => isQueued && (isSent || index >= place))
      this.#turns = this.#turns.filter((turn) => !unsent.includes(turn))
      for (const turn of unsent) turn.settle()
      if (isSent) {
        const open = this.#open
        if (open) await this.cancel()
        await open?.run?.result.catch(() => {})
        histories.set(this.#chat, (histories.get(this.#chat) ?? []).slice(0, at))
        if (!edited) this.#setEntries(this.#entries.slice(0, at))
        this.#turns = this.#turns.slice(0, Math.max(0, place))
      }
      await this.send(text, true)
    })
  }

  /** Brings the messages before the first one that is shown. */
  loadEarlier(): Promise<void> {
    return this.#guard(async () => {
      const cursor = this.#cursor
      if (cursor === null) return
      const page = await this.#client.history(this.#chat, cursor)
      if (this.#cursor !== cursor) return
      this.#cursor = page.cursor
      this.#setEntries([...page.entries, ...this.#entries])
      this.#show()
    })
  }

  get #open(): Turn | undefined {
    return this.#turns.find(({ isOpen }) => isOpen)
  }

  async #load(): Promise<void> {
    this.#error = null
    this.#isResuming = true
    this.#show()
    await this.#guard(() => this.#resume())
    await this.#next()
  }

  async #resume(): Promise<void> {
    const opening = this.#opening
    const isUnknown = this.#isNew && this.#turns.length === 0
    // A run of the platform may end while it is looked for, and is in the history from then on. A history that is kept
    // here gets what the run says as soon as it is followed.
    const kept = isUnknown
      ? { entries: [], cursor: null }
      : this.#client.histories && (await this.#client.history(this.#chat))
    const run = isUnknown ? null : await this.#client.attach({ chat: this.#chat })
    const { entries, cursor } = kept ?? (await this.#client.history(this.#chat))
    const id = (await run?.started)?.run
    if (this.#opening !== opening) return run?.detach()
    this.#cursor = cursor
    this.#turns = this.#turns.filter((turn) => turn.waitsBehind(run))
    this.#isResuming = false
    this.#isLoaded = true
    // What the run has answered so far comes again.
    this.#setEntries(entries.filter((entry) => id === undefined || entry.run !== id))
    if (!run) {
      // The page was left before its message had arrived, or came back too late for the answer: it can be sent again.
      const unanswered = this.#client.unanswered(this.#chat)
      if (unanswered) this.#turns.unshift(unansweredTurn(this.#newId(), unanswered))
      this.#error = this.#turns[0]?.error ?? this.#error
      this.#show()
      return this.#next()
    }
    const asked = entries.find((entry) => entry.run === id && entry.item.role === 'user')
    const turn = foundTurn(this.#newId(), run, asked)
    this.#turns.unshift(turn)
    await this.#follow(turn, run)
  }

  /** Sends the next message that is kept, unless there is a run. */
  async #next(): Promise<void> {
    const turn = this.#turns.find(({ isQueued }) => isQueued)
    if (!turn || this.#open || this.#isResuming) return
    await this.#guard(() => {
      turn.at = this.#client.histories?.get(this.#chat)?.length ?? 0
      return this.#follow(turn, this.#client.stream({ ...turn.input!, chat: this.#chat }))
    }, turn)
  }

  /** Shows a run until it is over or waits. */
  #follow(turn: Turn, run: Run): Promise<void> {
    return this.#guard(async () => {
      const opening = this.#opening
      this.#error = null
      turn.run = run
      turn.error = null
      turn.state = 'running'
      this.#show()
      const off = run.subscribe(() => (this.#timer ??= setTimeout(() => this.#show(), SHOWN_EVERY_MS)))
      try {
        const { status, usage } = await run.result
        this.#usage = usage
        if (this.#opening !== opening) return
        if (status === 'waiting') turn.state = status
        else this.#finish(turn, status === 'completed' ? 'done' : status)
      } catch (error) {
        if (this.#opening !== opening || asBureauError(error).code !== 'run_active') throw error
        // Another page has begun a run in the chat: it is shown, and the message is sent when it is over.
        turn.state = 'queued'
        return this.#resume()
      } finally {
        off()
        if (!turn.isQueued) turn.settle()
        this.#show()
      }
    }, turn)
  }

  #finish(turn: Turn, state: 'done' | 'cancelled' | 'failed'): void {
    turn.state = state
    this.#show()
    void this.#next()
  }

  /** Another page may have decided on what waits here. */
  async #lookAgain(): Promise<void> {
    const turn = this.#open
    if (turn?.state !== 'waiting') return
    const isPassed = await turn.isPassedBy(await this.#client.attach({ chat: this.#chat }))
    if (isPassed && this.#open === turn && turn.state === 'waiting') await this.#resume()
  }

  /** What another page has decided on goes on all the same. */
  async #decidedElsewhere(error: unknown): Promise<null> {
    if (!isDecidedElsewhere(error)) throw error
    await this.#resume()
    return null
  }

  #setEntries(entries: readonly HistoryEntry[]): void {
    this.#entries = entries
    this.#past = pastMessages(entries)
  }

  #newId(): string {
    return `message-${(this.#lastId += 1)}`
  }

  /** A failure is shown, as that of the message that it is about; nobody has to catch it. */
  async #guard(work: () => Promise<void>, turn?: Turn): Promise<void> {
    const opening = this.#opening
    try {
      await work()
    } catch (error) {
      if (this.#opening !== opening) return
      this.#isResuming = false
      this.#error = asBureauError(error)
      if (!turn) return this.#show()
      turn.error = this.#error
      turn.settle()
      this.#finish(turn, 'failed')
    }
  }

  #show(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#shown = this.#current()
    for (const listener of this.#listeners) listener()
  }

  #current(): ConversationState {
    const open = this.#open
    return {
      messages: [...this.#past, ...this.#turns.flatMap(({ messages }) => messages)],
      status: this.#statusOf(open),
      connection: open?.run?.connection ?? 'closed',
      error: this.#error,
      usage: this.#usage,
      approvals: open?.approvals ?? [],
      hasEarlier: this.#cursor !== null,
    }
  }

  #statusOf(open: Turn | undefined): ConversationState['status'] {
    if (this.#isResuming) return 'resuming'
    if (open?.state === 'waiting') return 'waiting'
    if (open) return open.run?.connection === 'connecting' ? 'sending' : 'running'
    return this.#error ? 'error' : 'idle'
  }
}
