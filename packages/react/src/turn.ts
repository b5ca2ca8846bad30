import {
  type Approval,
  BureauError,
  type HistoryEntry,
  type Input,
  type Part,
  type Run,
  type Unanswered,
} from '@bureau/client'
import { asBureauError, type UiMessage, userMessage } from './messages.ts'

type State = UiMessage['state']

/** One message of this page, and the run that answers it. */
export class Turn {
  readonly id: string
  /** Undefined: it was sent from elsewhere, and is in the history. */
  readonly input: Input | undefined
  /** How many messages the chat had before it, where the client keeps them. */
  at = 0
  run: Run | undefined
  state: State = 'queued'
  error: BureauError | null = null
  /** Resolves when its run is over or waits. Rejects when it was refused. */
  readonly settled: Promise<void>
  settle: (outcome?: Promise<never>) => void = () => {}
  readonly #mayWait: boolean
  readonly #question: ReturnType<typeof userMessage> | undefined
  #messages: UiMessage[] = []

  /** @param mayWait Whether it is sent when another run is over, or refused. */
  constructor(id: string, input: Input | undefined, mayWait: boolean) {
    this.id = id
    this.input = input
    this.#mayWait = mayWait
    this.settled = new Promise((resolve) => (this.settle = resolve))
    this.#question = input && userMessage(id, input.message)
  }

  get isOpen(): boolean {
    return this.state === 'running' || this.state === 'waiting'
  }

  get isQueued(): boolean {
    return this.state === 'queued'
  }

  /** Whether it waits for its turn: behind the run that was found in the chat, if there is one. */
  waitsBehind(run: Run | null): boolean {
    if (!this.isQueued || !run || this.#mayWait) return this.isQueued
    this.settle(Promise.reject(runActive()))
    return false
  }

  /** What to send again: as the same request, where the message may have begun a run all the same. */
  get again(): Input | undefined {
    const { input, error, run } = this
    if (!input) return undefined
    const { request: sent, ...message } = input
    const mayHaveBegun = error?.run === undefined && ['connection_lost', 'not_answered'].includes(error?.code ?? '')
    const request = mayHaveBegun ? (run?.request ?? sent) : undefined
    return request === undefined ? message : { ...message, request }
  }

  /** What waits for a decision. */
  get approvals(): readonly Approval[] {
    if (this.state !== 'waiting') return []
    return this.run?.parts.flatMap((part) => (part.type === 'tool' && part.approval ? [part.approval] : [])) ?? []
  }

  /** Whether `run`, which was found in the chat just now, has come further than what waits here. Nobody listens to it any more then. */
  async isPassedBy(run: Run | null): Promise<boolean> {
    const ids = new Set(this.approvals.map(({ call_id: id }) => id))
    const isDone = (part: Part): boolean => ids.has(part.id) && part.type === 'tool' && part.state === 'done'
    try {
      if (!run || (await run.started).run !== (await this.run?.started)?.run) return true
      for await (const _event of run) if (run.parts.some(isDone)) return true
      const result = await run.result
      return result.status !== 'waiting' || result.approvals.length < ids.size
    } finally {
      run?.detach()
    }
  }

  /** The message and what there is of its answer; each the same object as long as nothing of it changes. */
  get messages(): readonly UiMessage[] {
    const { id, state, error, run } = this
    const parts = run?.parts ?? []
    const isAnswered = parts.length > 0 || (state !== 'queued' && state !== 'running')
    const asked = this.#question && {
      ...this.#question,
      state: state === 'queued' ? state : ('done' as const),
      error: null,
    }
    const answer = isAnswered && { id: `${id}-answer`, role: 'assistant' as const, parts, state, error }
    const next = [asked, answer].filter((message) => !!message)
    this.#messages = next.map((message, at) => (isSame(this.#messages[at], message) ? this.#messages[at]! : message))
    return this.#messages
  }
}

/** A run that was begun elsewhere, with its message: `asked` of the history, where the run does not know it itself. */
export function foundTurn(id: string, { message: sent }: Run, asked: HistoryEntry | undefined): Turn {
  const message = sent ?? (asked && [{ content: asked.item['content'] }])
  return new Turn(id, message === undefined ? undefined : ({ message } as Input), true)
}

/** A message that was sent before the page was left, and can be sent again. */
export function unansweredTurn(id: string, { message, request, run }: Unanswered): Turn {
  const turn = new Turn(id, { message, ...(run === undefined && request && { request }) } as Input, true)
  turn.state = 'failed'
  turn.error = new BureauError('not_answered', 'The last message was not answered.')
  return turn
}

function isSame(one: UiMessage | undefined, other: UiMessage): boolean {
  return one?.id === other.id && one.parts === other.parts && one.state === other.state && one.error === other.error
}

/** What is sent has to wait, and must not. */
export function runActive(): BureauError {
  return new BureauError('run_active', 'The last message is still being answered.')
}

/** Somebody else has decided on the call. */
export function isDecidedElsewhere(error: unknown): boolean {
  const { status, code } = asBureauError(error)
  return status === 409 || code === 'approval_decided'
}
