import {
  addUsage,
  type ApprovalRequest,
  type EventSource,
  type Message,
  NO_USAGE,
  type RunEvent,
  type Usage,
  type UsageByModel,
  type WireItem,
  withoutMetadata,
} from '@bureau/protocol'
import type { Agency } from '../agency/agency.ts'
import { SharedState } from '../agency/shared-state.ts'
import type { AgentTool } from '../agency/tool.ts'
import { stamp, timestampMicros } from '../history/history.ts'
import { RunToolServers } from '../mcp/run-tool-servers.ts'
import { costOfResponse, usageOfResponse } from '../models/pricing.ts'
import type { RunControl } from './run-control.ts'
import type { RunJournal, RunResume } from './run-journal.ts'
import type { OnToolFailure, RunEnvironment, RunSetup, RunSink } from './run-setup.ts'
import { RunFailed } from './run-errors.ts'
import { isGiven, type RunInput } from './run-input.ts'
import { advance, type ConversationEvent } from './advance-run.ts'
import { type ConversationState, interrupted, isAtRest, newRunState, type RunState, withGiven } from './run-state.ts'
import type { RunTrace } from '../trace/run-trace.ts'

/** What a model says that a request has cost, in the words of the Responses API, or what we think. */
type CountedRequest = {
  readonly agent: string
  readonly model: string
  readonly rawUsage: unknown
  readonly estimated: boolean
}

/** A call that waits for a person. */
export type HeldCall = {
  readonly source: EventSource
  readonly request: Omit<ApprovalRequest, 'expires_at' | 'token'>
}

/** A model request that may still cost something. */
export interface OpenRequest {
  /** The run ends without waiting for it. Called once at most. */
  abandoned(): void
}

type RunParts = Pick<Run, 'agency' | 'input' | 'traceId' | 'trace' | 'tools'>

/** One run in progress: what all its conversations, nested ones included, share and add to. */
export class Run {
  readonly runId: string
  readonly agency: Agency
  /** Its history changes once, before the agents begin: when a part of it was summed up. */
  input: RunInput
  readonly control: RunControl
  readonly environment: RunEnvironment
  readonly userContext: Record<string, unknown>
  readonly sharedState: SharedState
  readonly traceId: string
  /** Undefined when nobody watches. */
  readonly trace: RunTrace | undefined
  /** The protected tool servers that this run's agents have activated. */
  readonly toolServers: RunToolServers
  /** Everything produced so far, in the order in which it is stored. */
  readonly messages: Message[] = []
  /** Calls whose outputs the caller is to bring, by their ids. */
  readonly leftToCaller: string[] = []
  /** Who was in control of the user's conversation last. */
  lastSource: EventSource | null = null
  readonly maxTurns: number
  /** Tools that every agent has in this run, besides its own. */
  readonly tools: readonly AgentTool[]
  readonly onToolFailure: OnToolFailure | undefined
  /** The calls about which a person must decide, in the order in which they were held. */
  readonly held: HeldCall[] = []
  /** True: it goes on with what another run has left, whose messages are in the history of its request. */
  readonly continuesAnother: boolean
  /** True: the process that has worked on it before has died. */
  readonly wasLost: boolean
  /** See `RunJournal`. */
  readonly keepsConversation: boolean
  readonly #sink: RunSink
  readonly #journal: RunJournal | undefined
  readonly #resume: RunResume | undefined
  readonly #usage = new Map<string, UsageByModel>()
  readonly #spent = new Map<string, UsageByModel>()
  readonly #openRequests = new Set<OpenRequest>()
  /** Which agent has made the call of an id. */
  readonly #callers: Map<string, string>
  #state: RunState
  /** How many messages came with the request: they are the first ones. */
  #given = 0
  #closed = false

  constructor(setup: RunSetup, { agency, input, traceId, trace, tools }: RunParts) {
    const { runId, control, environment, journal, resume } = setup
    this.runId = runId
    this.agency = agency
    this.input = input
    this.control = control
    this.environment = environment
    this.traceId = traceId
    this.trace = trace
    this.toolServers = new RunToolServers(environment.mcp.protected)
    // A protocol without it brings none, and its readers know no such event.
    const showsState = input.sharedState !== undefined
    this.sharedState = new SharedState(input.sharedState, (state) => {
      if (showsState) this.emit({ type: 'state.changed', state })
    })
    this.userContext = { ...agency.userContext, ...input.userContext }
    this.maxTurns = setup.maxTurns ?? agency.maxTurns
    this.tools = tools
    this.continuesAnother = resume?.state != null && resume.state.run_id !== runId
    this.#state = resume?.state ? interrupted(resume.state) : newRunState({ runId, agency: agency.name, traceId })
    this.onToolFailure = setup.onToolFailure
    this.#sink = setup.sink
    this.#journal = journal
    this.keepsConversation = journal?.keepsConversation ?? false
    this.#resume = resume
    this.wasLost = resume?.lost ?? false
    for (const entry of resume?.usage ?? []) add(this.#usage, entry)
    this.#callers = callersOf(this.#state, resume?.messages ?? [])
  }

  /**
   * Whether a call id is free, or this very agent's. Whoever approves a call, or shows it, knows it by its id alone, and agents of one
   * run may get the same ones from their models.
   */
  ownsCall(callId: string, agentRunId: string): boolean {
    const caller = this.#callers.get(callId) ?? agentRunId
    this.#callers.set(callId, caller)
    return caller === agentRunId
  }

  /** How far the run has come. */
  get state(): RunState {
    return this.#state
  }

  openConversation(
    opened: Omit<ConversationEvent & { readonly type: 'opened' }, 'type' | 'opened_at'>,
  ): ConversationState {
    return this.advance(String(this.#state.opened), { type: 'opened', opened_at: this.produced, ...opened })
  }

  /** Goes on with a conversation, which begins with so many items that are not the run's own. */
  goOn(conversation: ConversationState, given: number): ConversationState {
    const { conversations } = this.#state
    const shifted = withGiven(conversation, given)
    this.#state = { ...this.#state, conversations: { ...conversations, [conversation.id]: shifted } }
    return shifted
  }

  /** Takes a step in one of the run's conversations, and returns where that one is now. */
  advance(conversation: string, event: ConversationEvent): ConversationState {
    this.#state = advance(this.#state, conversation, event)
    return this.#state.conversations[conversation]!
  }

  /** The history that came with the request and what the run has added, up to so many messages that it has produced. */
  knownMessages(produced = this.produced): Message[] {
    return [...this.input.history, ...this.messages.slice(0, this.#given + produced)]
  }

  /** How many messages the run has produced, without those that came with the request. */
  get produced(): number {
    return this.messages.length - this.#given
  }

  /** @throws RunFailed there are fewer messages than the state knows of. */
  producedItems(from: number, to: number): WireItem[] {
    if (to > this.produced)
      throw new RunFailed('internal_error', { cause: new Error('messages of the run are missing') })
    return this.messages.slice(this.#given + from, this.#given + to).map(withoutMetadata)
  }

  /** After `close()` nothing is logged or stored any more: a tool that ignores its signal may still return. */
  emit(event: RunEvent): void {
    if (this.#closed) return
    if (event.type === 'model.event') this.trace?.modelEvent(event)
    this.#sink.emit(event)
  }

  ready(): Promise<void> | undefined {
    return this.#sink.ready()
  }

  close(): void {
    this.#closed = true
    this.toolServers.close()
  }

  /** A message of the request. A run that is taken up has it already. */
  give(item: WireItem, source: EventSource, origin?: string): void {
    this.#given++
    const message = this.#stamped(item, { source, timestamp: timestampMicros(this.environment.now()), origin })
    this.messages.push(message)
    if (!this.#resume) this.#journal?.stored(message)
  }

  /** The run has all messages of its request: those that it had produced before follow on them. */
  restoreMessages(): void {
    for (const message of this.#resume?.messages ?? []) if (!isGiven(message)) this.messages.push(message)
  }

  store(item: WireItem, source: EventSource, timestamp: number, origin?: string): void {
    if (this.#closed) return
    const message = this.#stamped(item, { source, timestamp, origin })
    this.messages.push(message)
    this.#journal?.stored(message)
  }

  /**
   * What the run has done so far is kept, in case that this process dies. Undefined when nobody keeps it.
   *
   * @throws RunStopped the run was stopped meanwhile, or is to go on in another process.
   */
  commit(): Promise<void> | undefined {
    const committed = this.#closed ? undefined : this.#journal?.commit(this.#state)
    return committed && this.#whenCommitted(committed, this.#state)
  }

  async #whenCommitted(committed: Promise<void>, state: RunState): Promise<void> {
    await committed
    if (this.control.mustHandOver && state === this.#state && isAtRest(state)) this.control.handedOver()
    this.control.signal.throwIfAborted()
  }

  /** The item as it is stored. */
  #stamped(
    item: WireItem,
    { source, timestamp, origin }: { source: EventSource; timestamp: number; origin?: string | undefined },
  ): Message {
    return stamp(item, {
      ...source,
      run_trace_id: this.traceId,
      timestamp,
      ...(origin !== undefined && { message_origin: origin }),
    })
  }

  open(request: OpenRequest): void {
    this.#openRequests.add(request)
  }

  closeRequest(request: OpenRequest): void {
    this.#openRequests.delete(request)
  }

  /** What is still asked of models is given up, and counted. */
  abandonRequests(): void {
    for (const request of this.#openRequests) request.abandoned()
  }

  /** Counts one request to a model, whatever became of it and of the run. */
  count({ agent, model, rawUsage, estimated }: CountedRequest): void {
    const tokens = usageOfResponse(rawUsage)
    const { costUsd, priced } = costOfResponse({ model, usage: tokens })
    const usage = { ...tokens, request_count: 1, total_cost: costUsd, ...(estimated && { estimated }) }
    const entry = { agent, model, priced, usage }
    this.#journal?.counted(entry)
    add(this.#usage, entry)
    add(this.#spent, entry)
  }

  get usageByModel(): UsageByModel[] {
    return [...this.#usage.values()]
  }

  /** The part of the usage that came together here, without that of a run that has waited or whose process was lost. */
  get spent(): UsageByModel[] {
    return [...this.#spent.values()]
  }

  get usage(): Usage {
    return this.usageByModel.reduce((sum, entry) => addUsage(sum, entry.usage), NO_USAGE)
  }
}

function add(sums: Map<string, UsageByModel>, { agent, model, priced, usage }: UsageByModel): void {
  const key = JSON.stringify([agent, model])
  const before = sums.get(key)
  sums.set(key, { agent, model, priced, usage: before ? addUsage(before.usage, usage) : usage })
}

/** Which agent has made which call, as far as that goes on. */
function callersOf({ conversations }: RunState, messages: readonly Message[]): Map<string, string> {
  const over = messages.flatMap(({ type, call_id: id }) => (type === 'function_call' && id !== undefined ? [id] : []))
  const open = Object.values(conversations).flatMap(({ calls, agent_run_id: agent }) =>
    calls.map(({ call_id: id }): [string, string] => [id, agent]),
  )
  return new Map([...over.map((id): [string, string] => [id, '']), ...open])
}
