import {
  type AgentOptions as SdkAgentOptions,
  type AgentOutputType,
  Agent as SdkAgent,
  type MCPServer,
  type Model,
  type Tool as SdkTool,
} from '#agents-core'
import type { MCPServerOAuth } from './mcp/oauth-server.ts'
import { type ProtectedServer, protectedServersOf, splitServers } from './mcp/protected-servers.ts'
import { isLanguageModel, type LanguageModel, type ProviderTool } from './models/ai-sdk/language-model.ts'
import type { AgencyContext } from './run-scope.ts'
import { type Tool, type ToolClass, toSdkTools } from './tool.ts'

export type AgentOptions = Omit<SdkAgentOptions<AgencyContext, AgentOutputType>, 'model' | 'tools' | 'mcpServers'> & {
  /** A name, a language model of the AI SDK, or a `Model` of `@openai/agents`. Default: the model of the process. */
  readonly model?: string | LanguageModel | Model
  /** What the agent is for: shown to other agents and to people. */
  readonly description?: string
  /** Of tools that a provider runs itself, such as `anthropic.tools.webSearch_20250305()`, only its own models know. */
  readonly tools?: readonly (SdkTool<AgencyContext> | Tool | ToolClass | ProviderTool)[]
  /** Tool servers; those that users must sign in to are declared by `new MCPServerOAuth({...})`. */
  readonly mcpServers?: readonly (MCPServer | MCPServerOAuth)[]
  /** Questions a front end may offer before the first message. */
  readonly conversationStarters?: readonly string[]
  /** Answers a front end may offer during the conversation. */
  readonly quickReplies?: readonly string[]
  /** False: answers of runs addressed to this agent carry no `usage`. Default true. */
  readonly includeUsage?: boolean
  /** How often an answer refused by an output guardrail is tried again. Default 1. */
  readonly validationAttempts?: number
  /**
   * True: a tripped input guardrail fails the run. Default false: its guidance becomes the answer and the model is not
   * asked.
   */
  readonly raiseInputGuardrailError?: boolean
  /** Replaces the system message that tells the next agent that a handoff is complete. */
  readonly handoffReminder?: string
  /** Of realtime sessions that begin with this agent. */
  readonly voice?: string
}

/** The agents SDK's agent plus what an agency server needs to know of it. Frozen when built. */
export class Agent extends SdkAgent<AgencyContext, AgentOutputType> {
  readonly description: string
  readonly conversationStarters: readonly string[]
  readonly quickReplies: readonly string[]
  readonly includeUsage: boolean
  readonly validationAttempts: number
  readonly raiseInputGuardrailError: boolean
  readonly handoffReminder: string | undefined
  readonly voice: string | undefined
  /** Servers that the agent may use once its user has signed in, by name. */
  readonly protectedServers: ReadonlyMap<string, ProtectedServer>

  constructor(options: AgentOptions) {
    const { description, model, tools, conversationStarters, quickReplies, includeUsage, ...sdk } = options
    const { validationAttempts, raiseInputGuardrailError, handoffReminder, voice, ...sdkOptions } = sdk
    const { open, declared } = splitServers(options.mcpServers ?? [])
    super({
      handoffOutputTypeWarningEnabled: false,
      ...(description !== undefined && { handoffDescription: description }),
      ...sdkOptions,
      ...(model !== undefined && { model: sdkModel(model) }),
      tools: toSdkTools(tools ?? []),
      mcpServers: open,
    })
    this.description = description ?? options.handoffDescription ?? ''
    this.conversationStarters = Object.freeze([...(conversationStarters ?? [])])
    this.quickReplies = Object.freeze([...(quickReplies ?? [])])
    this.includeUsage = includeUsage ?? true
    this.validationAttempts = validationAttempts ?? 1
    this.raiseInputGuardrailError = raiseInputGuardrailError ?? false
    this.handoffReminder = handoffReminder
    this.voice = voice
    this.protectedServers = protectedServersOf(this, declared)
    Object.freeze(this.tools)
    Object.freeze(this.handoffs)
    Object.freeze(this.mcpServers)
    Object.freeze(this.inputGuardrails)
    Object.freeze(this.outputGuardrails)
    Object.freeze(this)
  }

  /** An agent of the agents SDK, with the defaults of the fields that it does not have. */
  static from(agent: SdkAgent<AgencyContext, AgentOutputType>): Agent {
    if (agent instanceof Agent) return agent
    const known = adopted.get(agent)
    if (known) return known
    const made = new Agent({
      name: agent.name,
      instructions: agent.instructions,
      handoffDescription: agent.handoffDescription,
      handoffs: agent.handoffs,
      model: agent.model,
      modelSettings: agent.modelSettings,
      tools: agent.tools,
      mcpServers: agent.mcpServers,
      mcpConfig: agent.mcpConfig,
      inputGuardrails: agent.inputGuardrails,
      outputGuardrails: agent.outputGuardrails,
      outputType: agent.outputType,
      toolUseBehavior: agent.toolUseBehavior,
      resetToolChoice: agent.resetToolChoice,
      ...(agent.prompt !== undefined && { prompt: agent.prompt }),
    })
    adopted.set(agent, made)
    return made
  }
}

/** The SDK keeps an agent's model and never looks into it: models are resolved for each run. */
function sdkModel(model: string | LanguageModel | Model): string | Model {
  return isLanguageModel(model) ? (model as unknown as Model) : model
}

/** Whether the provider keeps this agent's items; what it does not keep cannot be referred to by id later. */
export function storage(agent: Agent): { store: boolean } {
  return { store: agent.modelSettings.store ?? true }
}

/** An SDK agent that several handoffs lead to is one agent. */
const adopted = new WeakMap<object, Agent>()
