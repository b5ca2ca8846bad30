import type { EventSource, WireItem } from '@bureau/protocol'
import type { Agent } from '../agency/agent.ts'
import type { AgencyContext } from '../agency/run-context.ts'
import { preservationItem, timestampMicros } from '../history/history.ts'
import { randomHex } from '../random-hex.ts'
import type { Run } from '../run/run.ts'
import type { ConversationEvent, ConversationState, InputPart } from '../run/run-state.ts'
import type { ConversationTrace } from '../trace/run-trace.ts'
import { type ToolFacts, toolOutputCreated } from './item-events.ts'
import { functionOutput, outputsInCallOrder, systemNote, type TurnItem } from './turn-items.ts'

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
  /** Added to the first agent's instructions. */
  readonly additionalInstructions?: string | undefined
  /** Earlier items of this conversation, fit for the model. */
  readonly history: readonly WireItem[]
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
  readonly callerAgent: string | null
  readonly parentRunId: string | undefined
  /** Undefined when nobody watches the run. */
  readonly trace: ConversationTrace | undefined
  /** Messages, calls and their outputs, in order, fit for the model. */
  readonly items: WireItem[] = []
  /** How many of them were there before the agents began to work. */
  #given = 0
  #state: ConversationState
  #source: EventSource
  #factsOf: (tool: string) => ToolFacts | undefined = () => undefined
  #turn: TurnItem[] = []
  readonly #keys = new Set<string>()
  readonly #busyRecipients = new Set<string>()
  readonly #additionalInstructions: string | undefined

  constructor(run: Run, options: ConversationOptions) {
    const { agent, converse, sender, parentRunId, additionalInstructions, history } = options
    this.run = run
    this.converse = converse
    this.callerAgent = sender?.agent ?? null
    this.parentRunId = parentRunId
    this.#additionalInstructions = additionalInstructions
    this.#source = this.#inControlOf(agent)
    this.trace = run.trace?.conversation(this.callerAgent, parentRunId)
    this.#state = run.advance(run.newConversationId(), {
      type: 'opened',
      parent: sender?.state.id ?? null,
      call_id: parentRunId ?? null,
      addressed: agent,
      caller: this.callerAgent,
      agent_run_id: this.#source.agent_run_id,
    })
    this.#remember(history)
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

  get signal(): AbortSignal {
    return this.run.control.signal
  }

  /** Only the user's conversation stops after its turn: what its tools have begun, nested agents included, finishes. */
  get mustStop(): boolean {
    return this.callerAgent === null && this.run.control.stopAfterTurn
  }

  /** What the next model request sends. */
  get input(): WireItem[] {
    return this.#state.input.flatMap((part) =>
      isRange(part) ? this.items.slice(part[0], part[1]) : [part as WireItem],
    )
  }

  /** What the agents have produced in this run so far. */
  get produced(): readonly WireItem[] {
    return [...this.items.slice(this.#given), ...this.#turn.map(({ item }) => item)]
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

  /** The agents begin to work on what has come so far. */
  begin(): void {
    this.#given = this.items.length
    this.announceAgent()
  }

  /** The agent in control tries again: with a new id. */
  beginAgain(): void {
    this.#source = this.#inControlOf(this.agent)
    this.advance({ type: 'answer.refused', agent_run_id: this.#source.agent_run_id })
    this.announceAgent()
  }

  /** Items of this turn that come from outside: the user's, another agent's, or the framework's. */
  receive(items: readonly WireItem[], origin?: string): void {
    for (const item of items) this.run.store(item, this.#source, timestampMicros(this.run.environment.now()), origin)
    this.#remember(items)
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
    return this.#keys.has(keyOf(item))
  }

  /** A finished item of a model response, and what is kept of a search for later turns. */
  modelProduced(item: WireItem): void {
    this.#addToTurn(item)
    const preserved = preservationItem(item)
    if (preserved) this.#addToTurn(preserved.item, preserved.origin)
  }

  /** A call has its output: shown at once, stored with its turn. */
  callReturned(call: WireItem, output: WireItem): void {
    this.#addToTurn(output)
    this.run.emit(toolOutputCreated(output, this.#source, this.toolFacts(call)))
  }

  /**
   * Control moves to another agent of this conversation. Calls of other handoffs of the same turn are answered as not
   * carried out.
   */
  handOver(call: WireItem, { to, others, note }: HandOver): void {
    const from = { name: this.agent }
    this.run.emit({
      type: 'item.created',
      source: this.#source,
      name: 'handoff_requested',
      item: { type: 'handoff_call_item', agent: from, raw_item: call },
    })
    const output = functionOutput(call, JSON.stringify({ assistant: to }))
    this.#addToTurn(output)
    for (const other of others) {
      const refusal = `Not carried out: the conversation was already handed over to ${to} in this turn.`
      this.callReturned(other, functionOutput(other, refusal))
    }
    this.#addToTurn(systemNote(note), 'handoff_reminder')
    this.#source = this.#inControlOf(to)
    this.advance({ type: 'handed_over', agent: to, agent_run_id: this.#source.agent_run_id })
    this.run.emit({
      type: 'item.created',
      source: this.#source,
      name: 'handoff_occured',
      item: {
        type: 'handoff_output_item',
        agent: from,
        raw_item: output,
        source_agent: from,
        target_agent: { name: to },
      },
    })
    this.announceAgent()
  }

  /** Stores what the running turn has produced: calls before their outputs, outputs in the order of their calls. */
  endTurn(): void {
    const turn = outputsInCallOrder(this.#turn)
    this.#turn = []
    if (turn.length === 0) return
    for (const { item, source, timestamp, origin } of turn) this.run.store(item, source, timestamp, origin)
    this.#remember(turn.map(({ item }) => item))
  }

  /** What the next request sends is chosen anew. Items that were kept are kept by their places. */
  chooseInput(chosen: readonly WireItem[]): void {
    const places = new Map(this.items.map((item, place) => [item, place]))
    const input: InputPart[] = []
    for (const item of chosen) {
      const place = places.get(item)
      const last = input.at(-1)
      if (place === undefined) input.push(item)
      else if (last !== undefined && isRange(last) && last[1] === place) input[input.length - 1] = [last[0], place + 1]
      else input.push([place, place + 1])
    }
    this.advance({ type: 'input.chosen', input })
  }

  #addToTurn(item: WireItem, origin?: string): void {
    const timestamp = timestampMicros(this.run.environment.now())
    this.#turn.push({ item, source: this.#source, timestamp, ...(origin !== undefined && { origin }) })
    this.#keys.add(keyOf(item))
  }

  #remember(items: readonly WireItem[]): void {
    if (items.length === 0) return
    for (const item of items) {
      this.items.push(item)
      this.#keys.add(keyOf(item))
    }
    this.advance({ type: 'items.added', count: items.length })
  }

  #inControlOf(agent: string): EventSource {
    return Object.freeze({
      agent,
      callerAgent: this.callerAgent,
      agent_run_id: `agent_run_${randomHex()}`,
      ...(this.parentRunId !== undefined && { parent_run_id: this.parentRunId }),
    })
  }
}

type HandOver = {
  readonly to: string
  /** Calls of other handoffs. */
  readonly others: readonly WireItem[]
  /** For the next agent. */
  readonly note: string
}

function keyOf({ type, call_id: callId, id }: WireItem): string {
  return `${type ?? 'message'} ${callId ?? id ?? ''}`
}

function isRange(part: InputPart): part is [number, number] {
  return Array.isArray(part)
}
