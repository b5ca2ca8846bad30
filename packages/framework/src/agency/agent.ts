import { COPY, THIS_COPY } from './copies.ts'
import { foreignOptions } from './agents-sdk/adopt-agent.ts'
import { present, readOptions } from '../options.ts'
import type { ModelObject } from './model-object.ts'
import {
  AgentChecks,
  type AgentOptions,
  type AnyAgent,
  type AnyHandoff,
  type DynamicPrompt,
  type DynamicText,
  type Prompt,
  type ToolUseBehavior,
} from './agent-options.ts'
import type { InputGuardrail, OutputGuardrail } from './guardrail.ts'
import type { ModelSettings } from './model-settings.ts'
import { MCPServerOAuth } from './oauth-server.ts'
import type { OutputType } from './output-format.ts'
import { type ProtectedServer, protectedServersOf } from './protected-servers.ts'
import { requireUsableTools } from './refused-definitions.ts'
import { type AgentTool, toAgentTools } from './tool.ts'
import type { McpConfig, ToolServer } from './tool-server.ts'

/**
 * What one agent is, does and may do: a definition, frozen when built. Whatever differs between runs belongs to the run.
 */
export class Agent<
  Name extends string = string,
  Type extends OutputType = 'text',
  Target extends AnyAgent | AnyHandoff = never,
> {
  readonly name: Name
  readonly instructions: string | DynamicText
  readonly prompt: Prompt | DynamicPrompt | undefined
  readonly description: string
  readonly handoffDescription: string
  readonly handoffs: readonly (AnyAgent | AnyHandoff)[]
  /** `''`: the server's model. */
  readonly model: string | ModelObject
  /** Undefined: the defaults of the model in use. */
  readonly modelSettings: ModelSettings | undefined
  readonly tools: readonly AgentTool[]
  readonly mcpServers: readonly ToolServer[]
  readonly mcpConfig: McpConfig
  readonly inputGuardrails: readonly InputGuardrail[]
  readonly outputGuardrails: readonly OutputGuardrail[]
  readonly outputType: OutputType
  readonly toolUseBehavior: ToolUseBehavior
  readonly resetToolChoice: boolean
  readonly conversationStarters: readonly string[]
  readonly quickReplies: readonly string[]
  readonly includeUsage: boolean
  readonly validationAttempts: number
  readonly raiseInputGuardrailError: boolean
  readonly handoffReminder: string | undefined
  readonly voice: string | undefined
  /** Servers that the agent may use once its user has signed in, by name. */
  readonly protectedServers: ReadonlyMap<string, ProtectedServer>

  /** @throws ConfigError an option cannot be used; the message names it. */
  constructor(options: AgentOptions<Name, Type, Target>) {
    readOptions(typeof options?.name === 'string' ? `Agent "${options.name}"` : 'Agent', AgentChecks, options)
    const { name, outputType = 'text' } = options
    const { description, handoffDescription, tools, mcpServers, ...given } = { ...DEFAULTS, ...present(options) }
    this.name = name
    this.instructions = given.instructions
    this.prompt = given.prompt
    this.description = description ?? handoffDescription ?? ''
    this.handoffDescription = handoffDescription ?? description ?? ''
    this.handoffs = Object.freeze([...given.handoffs])
    this.model = given.model
    this.modelSettings = given.modelSettings
    this.tools = Object.freeze(toAgentTools(tools))
    this.mcpServers = Object.freeze(mcpServers.flatMap((server) => (server instanceof MCPServerOAuth ? [] : [server])))
    this.mcpConfig = Object.freeze({ ...given.mcpConfig })
    this.inputGuardrails = Object.freeze([...given.inputGuardrails])
    this.outputGuardrails = Object.freeze([...given.outputGuardrails])
    this.outputType = outputType
    this.toolUseBehavior = given.toolUseBehavior
    this.resetToolChoice = given.resetToolChoice
    this.conversationStarters = Object.freeze([...given.conversationStarters])
    this.quickReplies = Object.freeze([...given.quickReplies])
    this.includeUsage = given.includeUsage
    this.validationAttempts = given.validationAttempts
    this.raiseInputGuardrailError = given.raiseInputGuardrailError
    this.handoffReminder = given.handoffReminder
    this.voice = given.voice
    requireUsableTools(this)
    const declared = mcpServers.filter((server) => server instanceof MCPServerOAuth)
    this.protectedServers = protectedServersOf(this, declared)
    Object.freeze(this)
  }

  get [COPY](): string {
    return THIS_COPY
  }

  /**
   * An agent of `@openai/agents`, with the defaults of the fields that it does not have. Its callbacks go on to get that
   * SDK's items.
   *
   * @throws ConfigError it has something that Bureau cannot carry out.
   */
  static from(agent: AnyAgent): Agent {
    if (agent instanceof Agent) return agent
    const known = adopted.get(agent) ?? new Agent(foreignOptions(agent))
    adopted.set(agent, known)
    return known
  }
}

/** The defaults of an agent. */
const DEFAULTS = {
  instructions: '',
  handoffs: [],
  model: '',
  tools: [],
  mcpServers: [],
  mcpConfig: {},
  inputGuardrails: [],
  outputGuardrails: [],
  toolUseBehavior: 'run_llm_again',
  resetToolChoice: true,
  conversationStarters: [],
  quickReplies: [],
  includeUsage: true,
  validationAttempts: 1,
  raiseInputGuardrailError: false,
} as const

/** Whether the provider keeps this agent's items; what it does not keep cannot be referred to by id later. */
export function storage({ modelSettings }: Agent): { store: boolean } {
  return { store: modelSettings?.store ?? true }
}

/** An SDK agent that several handoffs lead to is one agent. */
const adopted = new WeakMap<object, Agent>()
