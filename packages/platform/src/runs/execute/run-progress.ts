import { newMessagesForClient, type RunJournal, type RunState, RunStopped } from '@bureau/framework'
import type { Message, UsageByModel } from '@bureau/protocol'
import type { Database } from '../../db/database.ts'
import { newId } from '../../ids.ts'
import { recordStep, type RunWriter } from '../../run-records/record-step.ts'
import type { ModelCall, RunItemRecord } from '../../run-records/run-output.repo.ts'
import { untilAnswered } from './until-answered.ts'

type RunProgressOptions = {
  readonly db: Database
  readonly writer: RunWriter
  /** Aborts when the run is stopped. */
  readonly signal: AbortSignal
  /** The run was taken away from this process: nothing of it may be written any more. */
  readonly onFenced: () => void
  readonly onError: (error: unknown) => void
}

/** What the process before has recorded. */
type RecordedProgress = {
  readonly items: readonly RunItemRecord[]
  /** How many model calls. */
  readonly calls: number
}

/**
 * Records the steps of a run: complete items, the usage of each model call, and how far the run has come.
 *
 * One write at a time, with all that has come together meanwhile; repeated writes store and charge everything once. What
 * comes after the last step belongs to the transaction that ends the run.
 */
export class RunProgress implements RunJournal {
  readonly keepsConversation = true
  readonly #options: RunProgressOptions
  readonly #items: RunItemRecord[] = []
  readonly #calls: ModelCall[] = []
  #earlierCalls = 0
  #storedItems = 0
  #storedCalls = 0
  #state: RunState | undefined
  #asked = 0
  #kept = 0
  #writing: Promise<void> | undefined

  constructor(options: RunProgressOptions) {
    this.#options = options
  }

  /** Goes on from what the process before has recorded. */
  restore({ items, calls }: RecordedProgress): void {
    this.#items.push(...items)
    this.#storedItems = items.length
    this.#earlierCalls = calls
  }

  /** The complete items so far, as in the `messages` frame. */
  get messages(): readonly Message[] {
    return this.messagesWith([])
  }

  /** @param callerCalls - Calls whose outputs the caller brings, by their ids. */
  messagesWith(callerCalls: readonly string[]): readonly Message[] {
    const later = callerCalls.map((call_id): Message => ({ type: 'function_call_output', call_id }))
    return newMessagesForClient(
      this.#items.map(({ item }) => item),
      [],
      later,
    )
  }

  /** Steps that this process has recorded. */
  get steps(): number {
    return this.#kept
  }

  stored(message: Message): void {
    if (isUserMessage(message)) return // in the chat since the admission
    this.#items.push({ id: newId('msg'), item: message })
  }

  counted(answer: UsageByModel): void {
    this.#calls.push({ callSeq: this.#earlierCalls + this.#calls.length + 1, ...answer })
  }

  async commit(state: RunState): Promise<void> {
    this.#state = state
    const ticket = ++this.#asked
    while (this.#kept < ticket) {
      this.#writing ??= this.#write().finally(() => (this.#writing = undefined))
      await this.#writing
    }
  }

  /** Ends writing. What is not known to be stored belongs to the transaction that ends the run. */
  async close(): Promise<{ items: readonly RunItemRecord[]; calls: readonly ModelCall[] }> {
    await this.#writing?.catch(() => {})
    return { items: this.#items.slice(this.#storedItems), calls: this.#calls.slice(this.#storedCalls) }
  }

  async #write(): Promise<void> {
    const { db, writer, onFenced } = this.#options
    const ticket = this.#asked
    const items = this.#items.slice(this.#storedItems)
    const calls = this.#calls.slice(this.#storedCalls)
    const { version } = this.#state!
    const step = { ...writer, items, calls, version, state: JSON.stringify(this.#state) }
    const outcome = await untilAnswered(() => db.run(recordStep, step), this.#options)
    if (outcome === 'fenced') {
      onFenced()
      throw new RunStopped('cancelled')
    }
    this.#storedItems += items.length
    this.#storedCalls += calls.length
    this.#kept = ticket
  }
}

/** The message that the run answers: the only one of a user that nobody else has sent. */
function isUserMessage({ role, callerAgent }: Message): boolean {
  return role === 'user' && callerAgent == null
}
