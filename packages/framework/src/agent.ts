import {
  type AgentOptions as SdkAgentOptions,
  type AgentOutputType,
  Agent as SdkAgent,
  type MCPServer,
  type ModelSettings,
  type Tool as SdkTool,
} from '#agents-core'
import { AnyFunction, Milliseconds, type OptionChecks, readOptions } from './options.ts'
import { z } from 'zod'
import type { MCPServerOAuth } from './mcp/oauth-server.ts'
import { type ProtectedServer, protectedServersOf, splitServers } from './mcp/protected-servers.ts'
import type { AgencyContext } from './run-scope.ts'
import { type Tool, type ToolClass, toSdkTools } from './tool.ts'

export type AgentOptions = Omit<SdkAgentOptions<AgencyContext, AgentOutputType>, 'tools' | 'mcpServers'> & {
  /** What the agent is for: shown to other agents and to people. */
  readonly description?: string
  readonly tools?: readonly (SdkTool<AgencyContext> | Tool | ToolClass)[]
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

/** The settings of the agents SDK, as far as it says what they are. */
const ModelSettingsChecks = z.strictObject({
  temperature: z.number().optional(),
  topP: z.number().optional(),
  frequencyPenalty: z.number().optional(),
  presencePenalty: z.number().optional(),
  toolChoice: z.unknown().optional(),
  parallelToolCalls: z.boolean().optional(),
  truncation: z.enum(['auto', 'disabled']).optional(),
  maxTokens: z.int().positive().optional(),
  store: z.boolean().optional(),
  promptCacheRetention: z.unknown().optional(),
  promptCacheOptions: z.unknown().optional(),
  contextManagement: z.unknown().optional(),
  reasoning: z.unknown().optional(),
  text: z.unknown().optional(),
  providerData: z.record(z.string(), z.unknown()).optional(),
  retry: z.unknown().optional(),
  preserveRawUsage: z.boolean().optional(),
  timeoutMs: Milliseconds.optional(),
} satisfies OptionChecks<ModelSettings>)

const strings = z.array(z.string()).optional()
const list = z.array(z.unknown()).optional()

const AgentChecks = z.strictObject({
  name: z.string(),
  instructions: z.union([z.string(), AnyFunction]).optional(),
  prompt: z.unknown().optional(),
  description: z.string().optional(),
  handoffDescription: z.string().optional(),
  handoffs: list,
  handoffOutputTypeWarningEnabled: z.boolean().optional(),
  model: z
    .union([z.string(), z.looseObject({})], { error: 'must be the name of a model, or a model object' })
    .optional(),
  modelSettings: ModelSettingsChecks.optional(),
  tools: list,
  mcpServers: list,
  mcpConfig: z.looseObject({}).optional(),
  inputGuardrails: list,
  outputGuardrails: list,
  outputType: z.unknown().optional(),
  toolUseBehavior: z.unknown().optional(),
  resetToolChoice: z.boolean().optional(),
  conversationStarters: strings,
  quickReplies: strings,
  includeUsage: z.boolean().optional(),
  validationAttempts: z.int().nonnegative().optional(),
  raiseInputGuardrailError: z.boolean().optional(),
  handoffReminder: z.string().optional(),
  voice: z.string().optional(),
} satisfies OptionChecks<AgentOptions>)

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

  /** @throws ConfigError an option is not valid. */
  constructor(options: AgentOptions) {
    readOptions(typeof options?.name === 'string' ? `Agent "${options.name}"` : 'Agent', AgentChecks, options)
    const { description, tools, conversationStarters, quickReplies, includeUsage, ...sdk } = options
    const { validationAttempts, raiseInputGuardrailError, handoffReminder, voice, ...sdkOptions } = sdk
    const { open, declared } = splitServers(options.mcpServers ?? [])
    super({
      handoffOutputTypeWarningEnabled: false,
      ...(description !== undefined && { handoffDescription: description }),
      ...sdkOptions,
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

/** Whether the provider keeps this agent's items; what it does not keep cannot be referred to by id later. */
export function storage(agent: Agent): { store: boolean } {
  return { store: agent.modelSettings.store ?? true }
}

/** An SDK agent that several handoffs lead to is one agent. */
const adopted = new WeakMap<object, Agent>()
