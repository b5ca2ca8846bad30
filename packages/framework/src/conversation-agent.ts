import {
  type AgentOutputType,
  type InputGuardrail,
  type Model,
  type ModelResponse,
  type RunContext,
  Agent as SdkAgent,
  type Tool as SdkTool,
} from '#agents-core'
import type { Agency, AgencyHandoff } from './agency.ts'
import type { Agent } from './agent.ts'
import { type ModelTraits, modelTraits } from './bound-model.ts'
import { Conversation } from './conversation.ts'
import { withCodeFiles, withoutHostedTools } from './hosted-tools.ts'
import { authenticateTool } from './mcp/authenticate-tool.ts'
import { serverTools, toolServerOf } from './mcp/server-tools.ts'
import type { Run } from './run.ts'
import { RunStopped } from './run-control.ts'
import type { ToolFacts } from './run-items.ts'
import type { AgencyContext } from './run-scope.ts'
import { sendMessageTools } from './send-message.ts'

type SdkTools = SdkTool<AgencyContext>[]

/** What an agent goes into a turn with. */
export type Preparation = {
  readonly instructions: string | undefined
  readonly tools: SdkTools
  readonly handoffs: AgencyHandoff[]
}

/**
 * An agent as it takes part in one conversation: the definition's working copy, bound to this conversation's model.
 * Making one costs microseconds; the tools and handoffs are made once per agency.
 */
export class ConversationAgent extends SdkAgent<AgencyContext, AgentOutputType> {
  #prepared: Partial<Preparation> = {}

  /** What the agent goes into its next turn with. The SDK is told the same, once: no function of a user is asked twice. */
  async prepare(runContext: RunContext<AgencyContext>): Promise<Preparation> {
    const handoffs = await this.getEnabledHandoffs(runContext)
    const tools = await this.getAllTools(runContext)
    const instructions = await this.getSystemPrompt(runContext)
    this.#prepared = { handoffs, tools, instructions }
    return { handoffs, tools, instructions }
  }

  /** The SDK's next request to the agent's model is answered with a response that is there already. */
  answered(response: ModelResponse): void {
    const model = this.model as Model
    const getResponse = async (): Promise<ModelResponse> => {
      this.model = model
      return response
    }
    this.model = { getResponse, getStreamedResponse: (request) => model.getStreamedResponse(request) }
  }

  override async getSystemPrompt(runContext: RunContext<AgencyContext>): Promise<string | undefined> {
    return this.#takePrepared('instructions') ?? super.getSystemPrompt(runContext)
  }

  override async getEnabledHandoffs(runContext: RunContext<AgencyContext>): Promise<Preparation['handoffs']> {
    return this.#takePrepared('handoffs') ?? super.getEnabledHandoffs(runContext)
  }

  /**
   * Asked before every turn, so that a tool may enable others within the run.
   *
   * @throws RunStopped there must be no further turn.
   */
  override async getAllTools(runContext: RunContext<AgencyContext>): Promise<SdkTools> {
    return this.#takePrepared('tools') ?? this.#listTools(runContext)
  }

  #takePrepared<Part extends keyof Preparation>(part: Part): Preparation[Part] | undefined {
    const { [part]: prepared, ...others } = this.#prepared
    this.#prepared = others
    return prepared as Preparation[Part] | undefined
  }

  async #listTools(runContext: RunContext<AgencyContext>): Promise<SdkTools> {
    const conversation = conversationOf(runContext)
    const own = await super.getAllTools(runContext)
    const names = new Set(own.map((tool) => tool.name))
    const tools = [...own, ...conversation.run.tools.filter((tool) => !names.has(tool.name))]
    conversation.describeTools(factsOf(tools))
    const authorized = await conversation.run.toolServers.authorize(this.name, tools)
    if (conversation.mustStop) throw new RunStopped('cancelled')
    return forModel(authorized, modelTraits(conversation, this.name))
  }

  /** The tools of open servers, and of protected ones that the run has activated for this agent. */
  override async getMcpTools(runContext: RunContext<AgencyContext>): Promise<SdkTools> {
    const { run, signal } = conversationOf(runContext)
    await run.environment.mcp.connect(this.mcpServers, signal)
    const servers = [...this.mcpServers, ...run.toolServers.connectionsOf(this.name)]
    return serverTools({ agent: this, runContext, servers })
  }
}

function forModel(tools: SdkTools, model: ModelTraits): SdkTools {
  if (!model.runsHostedTools) return withoutHostedTools(tools)
  return model.codeFiles.length > 0 ? withCodeFiles(tools, model.codeFiles) : tools
}

export function conversationOf(runContext: { readonly context: unknown }): Conversation {
  if (!(runContext.context instanceof Conversation)) throw new Error('a tool ran outside its conversation')
  return runContext.context
}

function runOf(runContext: RunContext<AgencyContext>): Run {
  return conversationOf(runContext).run
}

/** The agents of one conversation, made when they are first reached. */
export class ConversationAgents {
  readonly #agency: Agency
  readonly #modelOf: (agent: Agent) => Model
  readonly #made = new Map<string, ConversationAgent>()

  constructor(agency: Agency, modelOf: (agent: Agent) => Model) {
    this.#agency = agency
    this.#modelOf = modelOf
  }

  get(name: string): ConversationAgent {
    const made = this.#made.get(name) ?? this.#make(this.#agency.agents.get(name)!)
    this.#made.set(name, made)
    return made
  }

  #make(agent: Agent): ConversationAgent {
    const added = [...sendMessageTools(this.#agency, agent), authenticateTool(agent, runOf)]
    return new ConversationAgent({
      name: agent.name,
      handoffDescription: agent.handoffDescription,
      handoffOutputTypeWarningEnabled: false,
      instructions: (runContext) => composeInstructions(agent, runContext),
      model: this.#modelOf(agent),
      modelSettings: agent.modelSettings,
      tools: [...agent.tools, ...added.filter((tool) => tool !== undefined)],
      mcpServers: [...agent.mcpServers],
      mcpConfig: agent.mcpConfig,
      inputGuardrails: agent.inputGuardrails.map(guardInput),
      outputGuardrails: agent.outputGuardrails,
      outputType: agent.outputType,
      toolUseBehavior: agent.toolUseBehavior,
      resetToolChoice: agent.resetToolChoice,
      handoffs: this.#agency.handoffsFrom(agent.name).map((handoff) =>
        handoff.clone({
          onInvokeHandoff: async (runContext, args) => this.get((await handoff.onInvokeHandoff(runContext, args)).name),
          ...(handoff.inputFilter && { inputFilter: filterInput(handoff.inputFilter) }),
        }),
      ),
      ...(agent.prompt !== undefined && { prompt: agent.prompt }),
    })
  }
}

/**
 * A guardrail sees the items for which the SDK has one. A refused message must not cost a model request, so guardrails
 * run before it unless they ask otherwise.
 */
function guardInput(guardrail: InputGuardrail): InputGuardrail {
  return {
    ...guardrail,
    runInParallel: guardrail.runInParallel ?? false,
    execute: (args) => guardrail.execute({ ...args, input: conversationOf(args.context).allSdkItems(args.input) }),
  }
}

type HandoffFilter = NonNullable<AgencyHandoff['inputFilter']>

/** A handoff's filter sees the items for which the SDK has one. */
function filterInput(filter: HandoffFilter): HandoffFilter {
  return (data) => {
    const conversation = conversationOf(data.runContext!)
    return filter({ ...data, inputHistory: conversation.allSdkItems(data.inputHistory) })
  }
}

async function composeInstructions(agent: Agent, runContext: RunContext<AgencyContext>): Promise<string> {
  const conversation = conversationOf(runContext)
  const { agency, input } = conversation.run
  const { instructions } = agent
  const own = typeof instructions === 'function' ? await instructions(runContext, agent) : instructions
  const composed = [agency.sharedInstructions, own].filter((text) => text !== '').join('\n\n')
  const added = conversation.additionalInstructionsFor(agent.name)
  const parts = [composed, added].filter((text) => text !== undefined && text !== '')
  const withAdded = parts.join(agency.sharedInstructions === '' ? '\n\n' : '\n\n---\n\n')
  const hint = conversation.callerAgent === null ? input.attachmentHint : undefined
  return hint === undefined ? withAdded : `${withAdded}\n\n${hint}`
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
