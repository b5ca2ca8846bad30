import { newMessagesForClient, type RunJournal } from '@bureau/framework'
import type { Message, UsageByModel } from '@bureau/protocol'
import type { Database } from '../../db/database.ts'
import { newId } from '../../ids.ts'
import { recordRunProgress, type RunWriter } from '../../run-records/record-run-progress.ts'
import type { ModelCall, RunItemRecord } from '../../run-records/run-output.repo.ts'

type RunProgressOptions = {
  readonly db: Database
  readonly writer: RunWriter
  /** The run was taken away from this process: nothing of it may be written any more. */
  readonly onFenced: () => void
  readonly onError: (error: unknown) => void
}

const RETRY_MS = 500
/** What comes together is written together; above all, the last answer with the end of its run. */
const GATHER_MS = 20

/**
 * Brings what a run produces into the records while it goes on: complete items, and the usage of each model call.
 *
 * One write at a time, with all that has come together meanwhile. What could not be written yet is kept and tried again;
 * repeated writes store and charge everything once.
 */
export class RunProgress implements RunJournal {
  readonly #options: RunProgressOptions
  readonly #items: RunItemRecord[] = []
  readonly #calls: ModelCall[] = []
  #storedItems = 0
  #storedCalls = 0
  #writing: Promise<void> | undefined
  #scheduled: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: RunProgressOptions) {
    this.#options = options
  }

  /** The complete items so far, as in the `messages` frame. */
  get messages(): readonly Message[] {
    return newMessagesForClient(this.#items.map(({ item }) => item))
  }

  stored(message: Message): void {
    if (isUserMessage(message)) return // in the chat since the admission
    this.#items.push({ id: newId('msg'), item: message })
    this.#schedule()
  }

  counted(answer: UsageByModel): void {
    this.#calls.push({ callSeq: this.#calls.length + 1, ...answer })
    this.#schedule()
  }

  commit(): undefined {
    return undefined
  }

  /** Ends writing. What is not known to be stored belongs to the transaction that ends the run. */
  async close(): Promise<{ items: readonly RunItemRecord[]; calls: readonly ModelCall[] }> {
    this.#closed = true
    this.#unschedule()
    await this.#writing
    return { items: this.#items.slice(this.#storedItems), calls: this.#calls.slice(this.#storedCalls) }
  }

  #schedule(): void {
    if (this.#closed || this.#scheduled || this.#writing) return
    this.#scheduled = setTimeout(() => this.#write(), GATHER_MS)
  }

  #unschedule(): void {
    clearTimeout(this.#scheduled)
    this.#scheduled = undefined
  }

  #write(): void {
    this.#scheduled = undefined
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined
      const rest = this.#items.length > this.#storedItems || this.#calls.length > this.#storedCalls
      if (rest && !this.#closed) this.#scheduled = setTimeout(() => this.#write(), RETRY_MS)
    })
  }

  async #writeAll(): Promise<void> {
    const { db, writer, onFenced, onError } = this.#options
    try {
      while (!this.#closed && (this.#items.length > this.#storedItems || this.#calls.length > this.#storedCalls)) {
        const items = this.#items.slice(this.#storedItems)
        const calls = this.#calls.slice(this.#storedCalls)
        const outcome = await db.run(recordRunProgress, { ...writer, items, calls })
        if (outcome === 'fenced') {
          this.#closed = true
          return onFenced()
        }
        this.#storedItems += items.length
        this.#storedCalls += calls.length
      }
    } catch (error) {
      onError(error)
    }
  }
}

/** The message that the run answers: the only one of a user that nobody else has sent. */
function isUserMessage({ role, callerAgent }: Message): boolean {
  return role === 'user' && callerAgent == null
}
