import {
  type AgentOptions,
  type AgentOutputType,
  type ModelRequest,
  type ModelResponse,
  type RunContext,
  Agent as SdkAgent,
  type Tool as SdkTool,
} from '#agents-core'
import type { AgencyHandoff } from './agency.ts'
import type { BoundModel } from './bound-model.ts'
import { Conversation } from './conversation.ts'
import { withCodeFiles, withoutHostedTools, withoutProviderTools } from './hosted-tools.ts'
import { resumeSignIns } from './mcp/resume-sign-ins.ts'
import { serverTools, toolServerOf } from './mcp/server-tools.ts'
import { RunStopped } from './run-control.ts'
import type { ToolFacts } from './run-items.ts'
import type { AgencyContext } from './run-scope.ts'

type SdkTools = SdkTool<AgencyContext>[]

/** What an agent goes into a turn with. */
type Preparation = { instructions: string | undefined; tools: SdkTools; handoffs: AgencyHandoff[] }

export type ConversationAgentOptions = Omit<AgentOptions<AgencyContext, AgentOutputType>, 'model'> & {
  readonly name: string
  readonly bound: BoundModel
  /** Given each request that the SDK would make. What it returns, if anything, takes the place of the model's answer. */
  readonly intercept: (agent: ConversationAgent, request: ModelRequest) => ModelResponse | undefined
}

/**
 * An agent as it takes part in one conversation: the definition's working copy, bound to this conversation's model.
 * Making one costs microseconds; the tools and handoffs are made once per agency.
 */
export class ConversationAgent extends SdkAgent<AgencyContext, AgentOutputType> {
  readonly bound: BoundModel
  #turn: Partial<Preparation> = {}
  #isPrepared = false
  #answer: ModelResponse | undefined

  constructor({ bound, intercept, ...options }: ConversationAgentOptions) {
    const { model, isTransport } = bound
    super({ ...options, model })
    this.bound = bound
    if (!isTransport) return
    this.model = {
      getResponse: async (request) => this.#takeAnswer() ?? intercept(this, request) ?? model.getResponse(request),
      getStreamedResponse: (request) => model.getStreamedResponse(request),
    }
  }

  /** True until the SDK asks the model: the turn's guardrails and users' functions have been called already. */
  get isPrepared(): boolean {
    return this.#isPrepared
  }

  /** What its next turn begins with. Users' functions are called in the order of the SDK, which then gets the same. */
  async prepare(runContext: RunContext<AgencyContext>): Promise<Preparation> {
    const handoffs = await this.getEnabledHandoffs(runContext)
    const tools = await this.getAllTools(runContext)
    const instructions = await this.getSystemPrompt(runContext)
    this.#isPrepared = true
    return { instructions, tools, handoffs }
  }

  /** Asks the model without the SDK. */
  ask(request: ModelRequest): Promise<ModelResponse> {
    return this.bound.model.getResponse(request)
  }

  /** The SDK goes on with this answer, in the turn that was prepared last. */
  beginWith(answer: ModelResponse): void {
    this.#answer = answer
    this.#isPrepared = true
  }

  override async getSystemPrompt(runContext: RunContext<AgencyContext>): Promise<string | undefined> {
    if (!this.#isPrepared) this.#turn.instructions = await super.getSystemPrompt(runContext)
    return this.#turn.instructions
  }

  override async getEnabledHandoffs(runContext: RunContext<AgencyContext>): Promise<AgencyHandoff[]> {
    if (!this.#isPrepared) this.#turn.handoffs = await super.getEnabledHandoffs(runContext)
    return this.#turn.handoffs ?? []
  }

  /**
   * Asked before every turn, so that a tool may enable others within the run.
   *
   * @throws RunStopped there must be no further turn.
   */
  override async getAllTools(runContext: RunContext<AgencyContext>): Promise<SdkTools> {
    if (!this.#isPrepared) this.#turn.tools = await this.#listTools(runContext)
    return this.#turn.tools ?? []
  }

  async #listTools(runContext: RunContext<AgencyContext>): Promise<SdkTools> {
    const conversation = conversationOf(runContext)
    const own = await super.getAllTools(runContext)
    const names = new Set(own.map((tool) => tool.name))
    const tools = [...own, ...conversation.run.tools.filter((tool) => !names.has(tool.name))]
    conversation.describeTools(factsOf(tools))
    const authorized = await conversation.run.toolServers.authorize(this.name, tools)
    if (conversation.mustStop) throw new RunStopped('cancelled')
    return forModel(authorized, this.bound)
  }

  /** The tools of open servers, and of protected ones that the user is signed in to. */
  override async getMcpTools(runContext: RunContext<AgencyContext>): Promise<SdkTools> {
    const { run, signal } = conversationOf(runContext)
    await resumeSignIns({ run, agent: run.agency.agents.get(this.name)!, runContext })
    await run.environment.mcp.connect(this.mcpServers, signal)
    const servers = [...this.mcpServers, ...run.toolServers.connectionsOf(this.name)]
    return serverTools({ agent: this, runContext, servers })
  }

  #takeAnswer(): ModelResponse | undefined {
    const answer = this.#answer
    this.#answer = undefined
    this.#isPrepared = false
    return answer
  }
}

function forModel(tools: SdkTools, model: BoundModel): SdkTools {
  if (!model.runsHostedTools) return withoutHostedTools(tools)
  const known = model.isTransport ? [...withoutProviderTools(tools)] : tools
  return model.codeFiles.length > 0 ? withCodeFiles(known, model.codeFiles) : known
}

export function conversationOf(runContext: { readonly context: unknown }): Conversation {
  if (!(runContext.context instanceof Conversation)) throw new Error('a tool ran outside its conversation')
  return runContext.context
}

function factsOf(tools: SdkTools): Map<string, ToolFacts> {
  const facts = new Map<string, ToolFacts>()
  for (const tool of tools) {
    if (tool.type !== 'function') continue
    const mcpServer = toolServerOf(tool)
    facts.set(tool.name, { description: tool.description, ...(mcpServer !== undefined && { mcpServer }) })
  }
  return facts
}
