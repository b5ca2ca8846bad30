import type { EventSource, WireItem } from '@bureau/protocol'
import type { Agent } from '../agency/agent.ts'
import type { AgencyContext } from '../agency/run-context.ts'
import type { SharedState } from '../agency/shared-state.ts'
import { timestampMicros } from '../history/history.ts'
import { randomHex } from '../random-hex.ts'
import type { Run } from '../run/run.ts'
import type { CallBinding, ConversationEvent } from '../run/advance-run.ts'
import { type ConversationState, type InputPart, isAsking, isRange } from '../run/run-state.ts'
import type { ConversationTrace } from '../trace/run-trace.ts'
import type { ToolFacts } from './item-events.ts'
import { callIdOf, keyOf, RunningTurn, type TurnItem, turnItemState } from './turn-items.ts'

type ConversationOptions = {
  /** The agent that receives the first message. */
  readonly agent: string
  /**
   * Lets the agents work until one of them has an answer: in this conversation, and in those that they open. A tool cannot
   * import the loop that calls it.
   */
  readonly converse: (conversation: Conversation) => Promise<unknown>
  /** The conversation in which another agent asks. Undefined: the user does. */
  readonly sender?: Conversation
  /** The call by which it asks. */
  readonly parentRunId?: string
  /** Aborts with the run, or when that call is given up. Default: the run's. */
  readonly signal?: AbortSignal | undefined
  /** Added to the first agent's instructions. */
  readonly additionalInstructions?: string | undefined
  /** Earlier items of this conversation, fit for the model. */
  readonly history: readonly WireItem[]
  /** How far it had come in the process before. Absent: it begins. */
  readonly resume?: ConversationState | undefined
}

/**
 * One thread of a run: the user's conversation, or one agent's message to another.
 *
 * What the model has sent is stored, and sent again, exactly as it came. The run's state holds how far the
 * conversation has come; this class holds what belongs to this process: the items, and those of the running turn, which
 * are not stored yet.
 */
export class Conversation implements AgencyContext {
  readonly run: Run
  readonly converse: ConversationOptions['converse']
  readonly sharedState: SharedState
  readonly callerAgent: string | null
  readonly parentRunId: string | undefined
  readonly signal: AbortSignal
  /** Undefined when nobody watches the run. */
  readonly trace: ConversationTrace | undefined
  /** Messages, calls and their outputs, in order, fit for the model. */
  readonly items: WireItem[] = []
  /** What the user has said since the turn began to wait: it follows on that turn. */
  readonly later: WireItem[] = []
  #lostRequest: boolean
  readonly #resume: ConversationState | undefined
  #state: ConversationState
  #source: EventSource
  #factsOf: (tool: string) => ToolFacts | undefined = () => undefined
  /** What it has produced since the model was asked, not stored yet. */
  readonly turn = new RunningTurn()
  #keys: Set<string> | undefined // collected when somebody asks for the first time: most conversations call nothing
  readonly #startedBefore = new Set<string>()
  readonly #busyRecipients = new Set<string>()
  readonly #additionalInstructions: string | undefined

  constructor(run: Run, options: ConversationOptions) {
    const { agent, converse, sender, parentRunId, signal, additionalInstructions, history, resume } = options
    this.run = run
    this.sharedState = run.sharedState
    this.converse = converse
    this.callerAgent = sender?.agent ?? null
    this.parentRunId = parentRunId
    this.signal = signal ?? run.control.signal
    this.#additionalInstructions = additionalInstructions
    this.#source = resume ? this.#controlOf(resume) : this.#newControlOf(agent)
    this.trace = run.trace?.conversation(this.callerAgent, parentRunId)
    this.#lostRequest = run.wasLost && (resume ? isAsking(resume) : sender === undefined)
    this.#resume = resume
    this.#state =
      resume ??
      run.openConversation({
        parent: sender?.state.id ?? null,
        call_id: parentRunId ?? null,
        addressed: agent,
        caller: this.callerAgent,
        agent_run_id: this.#source.agent_run_id,
      })
    this.#given(history)
  }

  get state(): ConversationState {
    return this.#state
  }

  get source(): EventSource {
    return this.#source
  }

  get runId(): string {
    return this.run.runId
  }

  /** The name of the agent in control. */
  get agent(): string {
    return this.#source.agent
  }

  get agentInControl(): Agent {
    return this.run.agency.agents.get(this.agent)!
  }

  get userContext(): Record<string, unknown> {
    return this.run.userContext
  }

  /** Only the user's conversation stops after its turn: what its tools have begun, nested agents included, finishes. */
  get mustStop(): boolean {
    return this.callerAgent === null && this.run.control.stopAfterTurn
  }

  /** What the next model request sends. */
  get input(): WireItem[] {
    const { input } = this.#state
    const itemsOf = (part: InputPart): WireItem[] => (isRange(part) ? this.items.slice(part[0], part[1]) : [part])
    return input.length === 1 ? itemsOf(input[0]!) : input.flatMap(itemsOf)
  }

  /** True, once, when the process before has died while it asked a model. */
  takeLostRequest(): boolean {
    const isLost = this.#lostRequest
    this.#lostRequest = false
    return isLost
  }

  /** What the agents have produced in this run so far. */
  get produced(): readonly WireItem[] {
    return [...this.items.slice(this.#state.begun), ...this.turn.items.map(({ item }) => item)]
  }

  emit(data: { readonly type: string; readonly [key: string]: unknown }): void {
    this.run.emit({ type: 'custom', source: this.#source, data })
  }

  advance(event: ConversationEvent): void {
    this.#state = this.run.advance(this.#state.id, event)
  }

  toolFailed(tool: string, error: unknown): void {
    this.run.onToolFailure?.(error, { runId: this.runId, agent: this.agent, tool })
  }

  additionalInstructionsFor(agent: string): string | undefined {
    return agent === this.#state.addressed ? this.#additionalInstructions : undefined
  }

  /** False while an earlier message to the same recipient is being worked on. */
  claimRecipient(name: string): boolean {
    if (this.#busyRecipients.has(name)) return false
    this.#busyRecipients.add(name)
    return true
  }

  releaseRecipient(name: string): void {
    this.#busyRecipients.delete(name)
  }

  /** Says who is in control now. */
  announceAgent(): void {
    this.run.emit({ type: 'agent.updated', source: this.#source })
    this.trace?.enter(this.#source)
  }

  /** The agents begin to work on what has come so far, or go on. */
  begin(): void {
    if (this.#state.begun === 0) this.advance({ type: 'begun' })
    this.announceAgent()
  }

  /** The agent in control tries again: with a new id. */
  beginAgain(): void {
    this.#source = this.#newControlOf(this.agent)
    this.advance({ type: 'answer.refused', agent_run_id: this.#source.agent_run_id })
    this.announceAgent()
  }

  /** Items of the request, before the agents begin. */
  give(items: readonly WireItem[], origin?: string): void {
    const source = this.#resume ? this.#controlOf({ ...this.#resume, agent: this.#resume.addressed }) : this.#source
    for (const item of items) this.run.give(item, source, origin)
    this.#given(items)
  }

  /** Goes on from where the process before has come to, if there was one. All that comes from outside is there again. */
  restore(): void {
    if (!this.#resume) return
    this.#state = this.run.goOn(this.#resume, this.items.length)
    const { stored, turn, calls } = this.#state
    for (const [from, to] of stored) this.#remember(this.run.producedItems(from, to))
    for (const each of turn) {
      this.turn.add({ ...each, source: this.#source })
      this.#keys?.add(keyOf(each.item))
    }
    for (const { call_id: id, status } of calls) if (status === 'started') this.#startedBefore.add(id)
  }

  /** Items of this turn that come from outside: another agent's, or the framework's. */
  receive(items: readonly WireItem[], origin?: string): void {
    const at = this.run.produced
    for (const item of items) this.run.store(item, this.#source, timestampMicros(this.run.environment.now()), origin)
    this.#storedAt(at, items)
  }

  /** What the tools of the turn that begins are, by their names, for the events of their calls. */
  describeTools(factsOf: (tool: string) => ToolFacts | undefined): void {
    this.#factsOf = factsOf
  }

  toolFacts(item: WireItem): ToolFacts | undefined {
    return typeof item['name'] === 'string' ? this.#factsOf(item['name']) : undefined
  }

  /** Whether an item of the conversation has this one's type and id. */
  knows(item: WireItem): boolean {
    this.#keys ??= new Set([...this.items, ...this.turn.items.map((each) => each.item)].map(keyOf))
    return this.#keys.has(keyOf(item))
  }

  /** The model asks for calls: from here on, what the turn produces is part of the state. */
  responded(calls: readonly CallBinding[]): void {
    this.advance({ type: 'responded', calls, turn: this.turn.items.map(turnItemState) })
  }

  /** An item joins the running turn. */
  add(item: WireItem, origin?: string): void {
    const timestamp = timestampMicros(this.run.environment.now())
    const added: TurnItem = { item, source: this.#source, timestamp, ...(origin !== undefined && { origin }) }
    this.turn.add(added)
    this.#keys?.add(keyOf(item))
    // What a model has not finished is asked again as a whole.
    if (this.#state.phase === 'calling') this.advance({ type: 'turn.added', item: turnItemState(added) })
  }

  /** A call has its output: stored with its turn. */
  callReturned(call: WireItem, output: WireItem, status: 'done' | 'unknown' = 'done'): void {
    this.add(output)
    this.advance({ type: 'call.ended', call_id: callIdOf(call), status })
  }

  /** True: the process before had begun the call, and nobody knows how it ended. */
  wasStarted({ call_id: callId }: WireItem): boolean {
    return this.#startedBefore.has(callId ?? '')
  }

  /** Control moves to another agent of this conversation. */
  moveTo(agent: string): void {
    this.#source = this.#newControlOf(agent)
    this.advance({ type: 'handed_over', agent, agent_run_id: this.#source.agent_run_id })
  }

  /** Stores what the running turn has produced. */
  endTurn(): void {
    const turn = this.turn.take(this.#state.calls)
    const at = this.run.produced
    for (const { item, source, timestamp, origin } of turn) this.run.store(item, source, timestamp, origin)
    const items = turn.map(({ item }) => item)
    this.#storedAt(at, items)
  }

  #storedAt(at: number, items: readonly WireItem[]): void {
    this.#remember(items)
    if (items.length > 0) this.advance({ type: 'items.stored', at, count: items.length })
  }

  #given(items: readonly WireItem[]): void {
    this.#remember(items)
    if (items.length > 0 && !this.#resume) this.advance({ type: 'items.given', count: items.length })
  }

  #remember(items: readonly WireItem[]): void {
    for (const item of items) {
      this.items.push(item)
      this.#keys?.add(keyOf(item))
    }
  }

  #newControlOf(agent: string): EventSource {
    return this.#controlOf({ agent, agent_run_id: `agent_run_${randomHex()}` })
  }

  #controlOf({ agent, agent_run_id }: Pick<ConversationState, 'agent' | 'agent_run_id'>): EventSource {
    return Object.freeze({
      agent,
      callerAgent: this.callerAgent,
      agent_run_id,
      ...(this.parentRunId !== undefined && { parent_run_id: this.parentRunId }),
    })
  }
}
