import {
  type Agency,
  type ApprovalOptions,
  decideCalls,
  editProblem,
  type HeldDecision,
  resumeInHistory,
  type RunResume,
  type WaitingCall,
  waitingCalls,
} from '@bureau/framework'
import type { Message } from '@bureau/protocol'
import type { Claims } from '@bureau/runtime'
import type { ServerConfig } from '../config.ts'
import { InvalidBody } from '../http/invalid-body.ts'
import { approvalMsOf, type ServerOptions } from '../options.ts'
import { ApprovalTokens, type CallOwner, type HeldCall, type Room } from './approval-tokens.ts'

/** What a person has decided about a call, as a face has read it. */
type Answer = {
  readonly token: string
  /** The call that the client means, where it says so. */
  readonly callId?: string
  readonly approve: boolean
  readonly reason?: string | undefined
  /** In place of the model's. */
  readonly arguments?: unknown
}

/** All decisions of a request. */
export type Answers = {
  readonly list: readonly Answer[]
  /** Calls of the run that are not decided about: they wait on, are rejected, or the request is refused. */
  readonly others: 'wait' | 'reject' | 'refuse'
  /** True: a decision about a call that has its output counts for nothing, nor does a token that is not known beside others. */
  readonly lenient: boolean
}

/**
 * What of a run the clients of a protocol have in their histories: all of it, the conversation with the user, or of that what
 * was said and none of the agents' own calls.
 */
export type KeptByClient = 'everything' | 'conversation' | 'messages'

type ApprovalProblem = 'approval_invalid' | 'approval_expired' | 'approval_used' | 'approval_missing'

type Where = { readonly at: number; readonly field?: 'token' | 'call_id' | 'arguments'; readonly message: string }

/** A decision that cannot be used: 422, with the place and the member that is wrong. */
export class ApprovalRefused extends InvalidBody {
  readonly code: ApprovalProblem

  constructor(code: ApprovalProblem, { at, field = 'token', message }: Where) {
    super([{ type: code, loc: ['body', 'approvals', at, field], msg: message, input: null }])
    this.code = code
  }
}

type Asked = {
  readonly agency: Agency
  readonly answers: Answers
  readonly history: readonly Message[]
}

/** A run that goes on. */
type Continued = {
  readonly history: readonly Message[]
  readonly resume: RunResume
  /** The run could not be started after all: the same decisions may come again. */
  readonly release: () => Promise<void>
}

type ApprovalsOptions = {
  readonly tokens: ApprovalTokens
  readonly claims: Claims
  /** How long a person may take to decide, in milliseconds. */
  readonly lifeMs: number
  readonly now: () => number
}

/** Reads and makes no key before a call has to wait. */
export function openApprovals(
  options: ServerOptions,
  { secrets, directory }: ServerConfig['approvals'],
  claims: Claims,
): Approvals {
  return new Approvals({
    tokens: new ApprovalTokens({ secrets, directory }),
    claims,
    lifeMs: approvalMsOf(options),
    now: Date.now,
  })
}

/** A call to be decided about, and its place in the list of answers. */
type Opened = { readonly call: HeldCall; readonly answer: Answer; readonly at: number }

/**
 * Calls that wait for a person, on a server that keeps no runs: all that is needed to go on comes back with the decision, in
 * its token. A token is good once, for the user who asked.
 */
export class Approvals {
  readonly #options: ApprovalsOptions

  constructor(options: ApprovalsOptions) {
    this.#options = options
  }

  /**
   * How the calls of a run are held.
   *
   * @param kept - What the client's history has of the run.
   */
  holdingOf(owner: CallOwner, kept: KeptByClient): ApprovalOptions {
    const { tokens, lifeMs } = this.#options
    return {
      lifeMs,
      seal: ({ call_id, tool, arguments: args, agent, agent_run_id, edit, expires_at }, { state, nested, steps }) =>
        tokens.seal(owner, {
          run_id: state.run_id,
          call_id,
          tool,
          arguments: args,
          agent,
          agent_run_id,
          edit,
          state,
          expires_at: Date.parse(expires_at),
          missing: [...(kept === 'everything' ? [] : nested), ...(kept === 'messages' ? steps : [])],
        }),
    }
  }

  /**
   * Everything is checked before the tokens are used up.
   *
   * @returns Undefined when all calls have their output already.
   * @throws ApprovalRefused
   */
  async goOn(owner: CallOwner, { agency, answers, history }: Asked): Promise<Continued | undefined> {
    const opened = await this.#openAll(owner, answers)
    const open = opened.filter((each) => !this.#isAnswered(each, history, answers))
    const [first] = open
    if (!first) return undefined
    const { state, missing } = first.call
    const resumed = resumeInHistory({ state, missing }, history)
    requireOneRun(open)
    for (const each of open) {
      requireUnexpired(each, this.#options.now())
      requireUnchanged(each, resumed.history)
      await requireUsableArguments(each, agency)
    }
    if (answers.others === 'refuse') requireAll(open, state)
    const decided = decideCalls(resumed.state, open.map(decisionOf), { rejectOthers: answers.others === 'reject' })
    const release = await this.#claim(owner, open)
    return { history: resumed.history, resume: { ...NOTHING_BEFORE, state: decided }, release }
  }

  async #openAll(owner: CallOwner, { list, lenient }: Answers): Promise<Opened[]> {
    const { tokens } = this.#options
    const room: Room = { bytes: MAX_BYTES_TOGETHER }
    const opened: (Omit<Opened, 'call'> & { readonly call: HeldCall | undefined })[] = []
    for (const [at, answer] of list.entries()) {
      opened.push({ answer, at, call: await tokens.open(owner, answer.token, room) })
      if (room.bytes < 0) throw new ApprovalRefused('approval_invalid', { at, message: TOO_LARGE_TOGETHER })
    }
    const known = opened.filter((each): each is Opened => each.call !== undefined)
    const unknown = opened.find(({ call }) => call === undefined)
    if (unknown && !(lenient && known.length > 0)) {
      throw new ApprovalRefused('approval_invalid', { at: unknown.at, message: INVALID })
    }
    return known
  }

  /** @throws ApprovalRefused the call has its output, and the protocol does not forgive repetitions. */
  #isAnswered({ call, at }: Opened, history: readonly Message[], { lenient }: Answers): boolean {
    const isAnswer = ({ type }: Message): boolean => type === 'function_call_output' || type === 'mcp_approval_response'
    const isAnswered = itemsOf(call, history).some(isAnswer)
    if (isAnswered && !lenient) throw new ApprovalRefused('approval_used', { at, message: 'the call has its output' })
    return isAnswered
  }

  /** Of two requests with one token, one goes on. */
  async #claim(owner: CallOwner, opened: readonly Opened[]): Promise<() => Promise<void>> {
    const { claims } = this.#options
    const claimed: string[] = []
    const release = async (): Promise<void> => {
      for (const id of claimed) await claims.release(id)
    }
    try {
      for (const { call, at } of opened) {
        const id = JSON.stringify(['approval', owner.agency, owner.userId, call.agent_run_id, call.call_id])
        const isFirst = await claims.claim(id, call.expires_at)
        if (!isFirst) throw new ApprovalRefused('approval_used', { at, message: USED })
        claimed.push(id)
      }
    } catch (error) {
      await release()
      throw error
    }
    return release
  }
}

/** Twice what the largest one holds. */
const MAX_BYTES_TOGETHER = 134_217_728
const TOO_LARGE_TOGETHER = 'the tokens of a request hold more than 128 MiB together: decide about fewer calls at once'
const INVALID = 'this is not a token that the server has made for this agency and user, or it was changed'
const USED = 'the call was decided about before; a token is good once'

/** A run of its own goes on with what another one has left; nothing is counted again. */
const NOTHING_BEFORE = { messages: [], usage: [], attempt: 1, withdrawn: [], lost: false } as const

function decisionOf({ call, answer }: Opened): HeldDecision {
  const { approve: approved, reason = null, arguments: given } = answer
  const { call_id, agent_run_id } = call
  return { call_id, agent_run_id, approved, reason, arguments: given === undefined ? null : JSON.stringify(given) }
}

function requireUnexpired({ call, at }: Opened, now: number): void {
  if (call.expires_at > now) return
  const since = new Date(call.expires_at).toISOString()
  throw new ApprovalRefused('approval_expired', { at, message: `the request expired at ${since}; ask again` })
}

function requireAll(opened: readonly Opened[], state: HeldCall['state']): void {
  const isDecided = ({ call_id: id, agent_run_id: run }: WaitingCall): boolean =>
    opened.some(({ call }) => call.call_id === id && call.agent_run_id === run)
  const missing = waitingCalls(state).find((each) => !isDecided(each))
  if (!missing) return
  const message = `the call of ${missing.name} is not decided about; answer all that wait together`
  throw new ApprovalRefused('approval_missing', { at: opened.length, field: 'call_id', message })
}

function requireOneRun(opened: readonly Opened[]): void {
  const [first] = opened
  const seen = new Set<string>()
  for (const { call, at } of opened) {
    if (call.run_id !== first!.call.run_id) {
      throw new ApprovalRefused('approval_invalid', { at, message: 'it belongs to another run than the first one' })
    }
    const key = JSON.stringify([call.agent_run_id, call.call_id])
    if (seen.has(key)) throw new ApprovalRefused('approval_invalid', { at, message: 'the call is named twice' })
    seen.add(key)
  }
}

/** A call and what answers it. Agents that work at the same time may have calls of one id, as some models number them. */
function itemsOf(call: HeldCall, history: readonly Message[]): Message[] {
  return history.filter(({ call_id, id, approval_request_id: asked, agent_run_id: run }) => {
    return (call_id ?? asked ?? id) === call.call_id && (run ?? call.agent_run_id) === call.agent_run_id
  })
}

/** What is carried out is what the person has seen. */
function requireUnchanged({ call, answer, at }: Opened, history: readonly Message[]): void {
  const refuse = (message: string): never => {
    throw new ApprovalRefused('approval_invalid', { at, field: 'call_id', message })
  }
  if ((answer.callId ?? call.call_id) !== call.call_id) refuse('the token belongs to another call')
  const item = itemsOf(call, history).findLast(
    ({ type }) => type === 'function_call' || type === 'mcp_approval_request',
  )
  if (!item) return refuse('chat_history does not hold the call; send it with the messages that came with the request')
  if (item['name'] !== call.tool || item['arguments'] !== call.arguments) {
    refuse('the call in chat_history is not the one that was asked about')
  }
}

async function requireUsableArguments({ call, answer, at }: Opened, agency: Agency): Promise<void> {
  if (answer.arguments === undefined) return
  const refuse = (message: string): never => {
    throw new ApprovalRefused('approval_invalid', { at, field: 'arguments', message })
  }
  if (!call.edit) refuse('the arguments of this call cannot be changed')
  if (!answer.approve) refuse('a call that is rejected has no other arguments')
  const problem = await editProblem(agency, call, answer.arguments)
  if (problem !== undefined) refuse(`they do not fit the tool ${call.tool}: ${problem}`)
}
