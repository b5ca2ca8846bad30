import type { AgentInputItem } from '#agents-core'
import type { EventSource, WireItem } from '@bureau/protocol'
import { limitedOutput, limitedText } from './limited-output.ts'
import { preservationItem, timestampMicros } from './history.ts'
import { randomHex } from './random-hex.ts'
import type { Run } from './run.ts'
import { type ToolFacts, toolOutputCreated } from './run-items.ts'
import type { AgencyContext } from './run-scope.ts'
import type { ConversationTrace } from './run-trace.ts'
import { holdsMedia, isOutput, keyOf, outputsInCallOrder, type TurnItem } from './turn-items.ts'
import { toSdkItems, toWireItem } from './wire-items.ts'

export type ConversationOptions = {
  /** The agent that receives the first message. */
  readonly agent: string
  /** Null: the conversation with the user. */
  readonly callerAgent: string | null
  readonly parentRunId?: string
  /** Added to the first agent's instructions. */
  readonly additionalInstructions?: string | undefined
  /** Earlier items of this conversation, fit for the model. */
  readonly history: readonly WireItem[]
}

/**
 * One thread of a run: the user's conversation, or one agent's message to another.
 *
 * It keeps the canonical items: what the model sent is stored, and sent again, exactly as it came. The items of the
 * agents SDK are a working copy from which only new tool outputs are taken.
 */
export class Conversation implements AgencyContext {
  readonly run: Run
  readonly callerAgent: string | null
  readonly parentRunId: string | undefined
  source: EventSource
  /** Undefined when nobody watches the run. */
  readonly trace: ConversationTrace | undefined
  /** What the model has seen, in order. */
  readonly items: WireItem[] = []
  readonly #canonical = new Map<string, WireItem>()
  /** Items of ours that follow another item, by the key of that item. */
  readonly #followers = new Map<string, WireItem[]>()
  #facts: ReadonlyMap<string, ToolFacts> | undefined
  readonly #announced = new Set<string>()
  readonly #busyRecipients = new Set<string>()
  readonly #firstAgent: string
  readonly #additionalInstructions: string | undefined
  /** What the agents SDK knows as one item. */
  #earlier: readonly WireItem[] = []
  #turn: TurnItem[] = []

  constructor(run: Run, options: ConversationOptions) {
    this.run = run
    this.callerAgent = options.callerAgent
    this.parentRunId = options.parentRunId
    this.#firstAgent = options.agent
    this.#additionalInstructions = options.additionalInstructions
    this.source = this.#stayOf(options.agent)
    this.trace = run.trace?.conversation(options.callerAgent, options.parentRunId)
    for (const item of options.history) this.#remember(item)
  }

  get runId(): string {
    return this.run.runId
  }

  get agent(): string {
    return this.source.agent
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

  emit(data: { readonly type: string; readonly [key: string]: unknown }): void {
    this.run.emit({ type: 'custom', source: this.source, data })
  }

  toolFailed(tool: string, error: unknown): void {
    this.run.onToolFailure?.(error, { runId: this.runId, agent: this.agent, tool })
  }

  additionalInstructionsFor(agent: string): string | undefined {
    return agent === this.#firstAgent ? this.#additionalInstructions : undefined
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
    this.run.emit({ type: 'agent.updated', source: this.source })
    this.trace?.enter(this.source)
  }

  /** An agent takes control: a new stay with an id of its own. */
  enter(agent: string): void {
    this.source = this.#stayOf(agent)
    this.announceAgent()
  }

  /** Items of this turn that come from outside: the user's, another agent's, or the framework's. */
  receive(items: readonly WireItem[], origin?: string): void {
    for (const item of items) {
      this.run.store(item, this.source, timestampMicros(this.run.environment.now()), origin)
      this.#remember(item)
    }
  }

  /** What the tools of the turn that begins are, for the events of their calls. */
  describeTools(facts: ReadonlyMap<string, ToolFacts>): void {
    this.#facts = facts
  }

  toolFacts(item: WireItem): ToolFacts | undefined {
    return typeof item['name'] === 'string' ? this.#facts?.get(item['name']) : undefined
  }

  /** Whether an item of the conversation has this one's type and id. */
  knows(item: WireItem): boolean {
    return this.#canonical.has(keyOf(item) ?? '')
  }

  /** A finished item of a model response. */
  modelProduced(item: WireItem): void {
    this.#addToTurn(item)
    const preserved = preservationItem(item)
    if (!preserved) return
    this.#addToTurn(preserved.item, preserved.origin)
    this.#follow(item, preserved.item)
  }

  /** A function has returned: said at once, stored with its turn. What other tools return is no text: see below. */
  toolReturned(callId: string, output: string): void {
    const call = this.#turn.find(({ item }) => item.call_id === callId && item.type === 'function_call')
    if (!call || this.#announced.has(callId)) return
    this.#announced.add(callId)
    const item = { type: 'function_call_output', call_id: callId, output: limitedText(output) }
    this.#addToTurn(item)
    this.run.emit(toolOutputCreated(item, call.source, this.toolFacts(call.item)))
  }

  /** Control moves within this conversation. Calls for other handoffs of the same turn are answered as not carried out. */
  handedOver(from: string, to: string, reminder: string | undefined): void {
    const names = new Set(this.run.agency.handoffsFrom(from).map((handoff) => handoff.toolName))
    const transfers = this.#turn.filter(({ item }) => item.type === 'function_call' && names.has(String(item['name'])))
    const [carriedOut, ...others] = transfers
    if (!carriedOut) return
    const call = carriedOut.item
    this.run.emit({
      type: 'item.created',
      source: this.source,
      name: 'handoff_requested',
      item: { type: 'handoff_call_item', agent: { name: from }, raw_item: call },
    })
    const output = { type: 'function_call_output', call_id: call.call_id!, output: JSON.stringify({ assistant: to }) }
    this.#announced.add(call.call_id!)
    this.#addToTurn(output)
    for (const other of others) {
      const refusal = `Not carried out: the conversation was already handed over to ${to} in this turn.`
      this.toolReturned(other.item.call_id!, refusal)
    }
    const content = reminder ?? `The handoff is complete: you are ${to} now and answer the user directly.`
    const note = { role: 'system', type: 'message', content }
    this.#addToTurn(note, 'handoff_reminder')
    this.#follow(output, note)
    this.source = this.#stayOf(to)
    this.run.emit({
      type: 'item.created',
      source: this.source,
      name: 'handoff_occured',
      item: {
        type: 'handoff_output_item',
        agent: { name: from },
        raw_item: output,
        source_agent: { name: from },
        target_agent: { name: to },
      },
    })
    this.enter(to)
  }

  /**
   * The conversation so far as the agents SDK gets it: one item in place of all. The SDK copies and compares its whole
   * input several times in every turn, and has no use for what the items say: it only hands them to the model.
   *
   * Results of tool searches are the exception, because the SDK offers the tools that were found.
   */
  sdkInput(): AgentInputItem[] {
    this.#earlier = [...this.items]
    const hasFoundTools = this.items.some(({ type }) => type === 'tool_search_output')
    return hasFoundTools ? toSdkItems(this.items) : [EARLIER]
  }

  /** The SDK's input with all items, for what the users of the SDK look into. */
  allSdkItems(input: string | AgentInputItem[]): string | AgentInputItem[] {
    if (typeof input === 'string') return input
    return input.flatMap((item) => (item.id === EARLIER_TYPE ? toSdkItems(this.#earlier) : [item]))
  }

  /** The input of a model request: the SDK's list, with every item that is known here in its canonical form. */
  requestInput(sdkInput: readonly AgentInputItem[]): WireItem[] {
    return sdkInput.map(toWireItem).flatMap((item) => {
      if (item.type === EARLIER_TYPE) return this.#earlier
      const key = keyOf(item)
      return key === undefined ? [item] : [this.#canonical.get(key) ?? item, ...(this.#followers.get(key) ?? [])]
    })
  }

  /**
   * The input of the next model request. What the turn before has produced is stored.
   *
   * Outputs that the SDK made and no hook announced (an unknown tool, a rejected call, the tools of a computer) are taken
   * over on the way, and pictures and files, of which the hook knew a text.
   */
  nextRequestInput(sdkInput: readonly AgentInputItem[]): WireItem[] {
    for (const item of sdkInput.map(toWireItem).map(limitedOutput)) {
      const key = keyOf(item)
      if (!isOutput(item) || !key) continue
      if (!this.#canonical.has(key)) this.#adoptOutput(item)
      else if (holdsMedia(item)) this.#replaceOutput(key, item)
    }
    const input = this.requestInput(sdkInput)
    this.endTurn()
    return input
  }

  /** Stores what the running turn has produced: calls before their outputs, outputs in the order of their calls. */
  endTurn(): void {
    const turn = outputsInCallOrder(this.#turn)
    this.#turn = []
    for (const { item, source, timestamp, origin } of turn) {
      this.run.store(item, source, timestamp, origin)
      this.#remember(item)
    }
  }

  #adoptOutput(item: WireItem): void {
    const { type, output } = item
    if (type === 'function_call_output' && typeof output === 'string') {
      return this.toolReturned(item.call_id ?? '', output)
    }
    this.#addToTurn(item)
    this.run.emit(toolOutputCreated(item, this.source))
  }

  #replaceOutput(key: string, item: WireItem): void {
    this.#turn = this.#turn.map((entry) => (keyOf(entry.item) === key ? { ...entry, item } : entry))
    if (this.#turn.some((entry) => entry.item === item)) this.#canonical.set(key, item)
  }

  #addToTurn(item: WireItem, origin?: string): void {
    const timestamp = timestampMicros(this.run.environment.now())
    this.#turn.push({ item, source: this.source, timestamp, ...(origin !== undefined && { origin }) })
    const key = keyOf(item)
    if (key) this.#canonical.set(key, item)
  }

  #follow(item: WireItem, follower: WireItem): void {
    const key = keyOf(item)
    if (key) this.#followers.set(key, [...(this.#followers.get(key) ?? []), follower])
  }

  #remember(item: WireItem): void {
    this.items.push(item)
    const key = keyOf(item)
    if (key) this.#canonical.set(key, item)
  }

  #stayOf(agent: string): EventSource {
    return Object.freeze({
      agent,
      callerAgent: this.callerAgent,
      agent_run_id: `agent_run_${randomHex()}`,
      ...(this.parentRunId !== undefined && { parent_run_id: this.parentRunId }),
    })
  }
}

/** Stands for everything that the conversation has said before the SDK began to work on it. */
const EARLIER_TYPE = 'bureau_earlier_items'
const EARLIER: AgentInputItem = { type: 'unknown', id: EARLIER_TYPE, providerData: { type: EARLIER_TYPE } }
