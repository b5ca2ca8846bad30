import {
  addUsage,
  type EventSource,
  type Message,
  NO_USAGE,
  type RunEvent,
  type Usage,
  type UsageByModel,
  type WireItem,
} from '@bureau/protocol'
import type { Agency } from '../agency/agency.ts'
import type { AgentTool } from '../agency/tool.ts'
import { stamp } from '../history/history.ts'
import type { McpConnections } from '../mcp/connections.ts'
import type { OAuthAccess } from '../mcp/oauth-access.ts'
import { RunToolServers } from '../mcp/run-tool-servers.ts'
import type { ModelAccess } from '../models/resolve-model.ts'
import { costOfResponse, usageOfResponse } from '../models/pricing.ts'
import type { RunControl } from './run-control.ts'
import type { RunInput } from './run-input.ts'
import { advance, type ConversationEvent, type ConversationState, newRunState, type RunState } from './run-state.ts'
import type { RunTrace } from '../trace/run-trace.ts'
import type { RunObserver } from '../trace/trace-step.ts'

/** Where the events of a run go. */
export interface RunSink {
  /** Never waits and never throws. */
  emit(event: RunEvent): void
  /** A promise while the reader is too far behind; nothing more is read from the model until it resolves. */
  ready(): Promise<void> | undefined
}

/** Keeps what must outlive the process, as soon as it is there. Its methods never wait and never throw. */
export interface RunJournal {
  /** An item is complete and stays, in the order of `new_messages`. */
  stored(message: Message): void
  /** A model has answered once; `usage` is that of this answer alone. */
  counted(answer: UsageByModel): void
}

/** Called with the error of a failed tool, for the log: the run goes on, and neither client nor model gets its text. */
export type OnToolFailure = (
  error: unknown,
  facts: { readonly runId: string; readonly agent: string; readonly tool: string },
) => void

/** What a process offers to all its runs. */
export type RunEnvironment = {
  readonly models: ModelAccess
  readonly mcp: McpConnections
  /** How users sign in to protected tool servers. Absent: nobody can be asked, and such servers stay closed. */
  readonly oauth?: OAuthAccess
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Watches every run: for traces, metrics and logs. */
  readonly observer?: RunObserver | undefined
}

/** What a model says that a request has cost, in the words of the Responses API, or what we think. */
type CountedRequest = {
  readonly agent: string
  readonly model: string
  readonly rawUsage: unknown
  readonly estimated: boolean
}

/** A model request that may still cost something. */
export interface OpenRequest {
  /** The run ends without waiting for it. Called once at most. */
  abandoned(): void
}

/** One run in progress: what all its conversations, nested ones included, share and add to. */
export class Run {
  readonly runId: string
  readonly agency: Agency
  readonly input: RunInput
  readonly control: RunControl
  readonly environment: RunEnvironment
  readonly userContext: Record<string, unknown>
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
  readonly #sink: RunSink
  readonly #journal: RunJournal | undefined
  readonly #usage = new Map<string, UsageByModel>()
  readonly #openRequests = new Set<OpenRequest>()
  #state: RunState
  #closed = false

  constructor(options: {
    runId: string
    agency: Agency
    input: RunInput
    control: RunControl
    environment: RunEnvironment
    traceId: string
    trace: RunTrace | undefined
    sink: RunSink
    journal: RunJournal | undefined
    maxTurns: number | undefined
    tools: readonly AgentTool[]
    onToolFailure: OnToolFailure | undefined
  }) {
    this.runId = options.runId
    this.agency = options.agency
    this.input = options.input
    this.control = options.control
    this.environment = options.environment
    this.traceId = options.traceId
    this.trace = options.trace
    this.toolServers = new RunToolServers(options.environment.mcp.protected)
    this.userContext = { ...options.agency.userContext, ...options.input.userContext }
    this.maxTurns = options.maxTurns ?? options.agency.maxTurns
    this.tools = options.tools
    this.#state = newRunState({ runId: this.runId, agency: this.agency.name, traceId: this.traceId })
    this.onToolFailure = options.onToolFailure
    this.#sink = options.sink
    this.#journal = options.journal
  }

  /** How far the run has come. */
  get state(): RunState {
    return this.#state
  }

  newConversationId(): string {
    return String(Object.keys(this.#state.conversations).length)
  }

  /** Takes a step in one of the run's conversations, and returns where that one is now. */
  advance(conversation: string, event: ConversationEvent): ConversationState {
    this.#state = advance(this.#state, conversation, event)
    return this.#state.conversations[conversation]!
  }

  /** The history that came with the request and what the run has added. */
  get knownMessages(): Message[] {
    return [...this.input.history, ...this.messages]
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

  store(item: WireItem, source: EventSource, timestamp: number, origin?: string): void {
    if (this.#closed) return
    const message = stamp(item, {
      ...source,
      run_trace_id: this.traceId,
      timestamp,
      ...(origin !== undefined && { message_origin: origin }),
    })
    this.messages.push(message)
    this.#journal?.stored(message)
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
    const key = JSON.stringify([agent, model])
    const before = this.#usage.get(key)
    this.#journal?.counted({ agent, model, priced, usage })
    this.#usage.set(key, { agent, model, priced, usage: before ? addUsage(before.usage, usage) : usage })
  }

  get usageByModel(): UsageByModel[] {
    return [...this.#usage.values()]
  }

  get usage(): Usage {
    return this.usageByModel.reduce((sum, entry) => addUsage(sum, entry.usage), NO_USAGE)
  }
}
