import { z } from 'zod'
import type { ModelObject } from './model-object.ts'
import { AnyFunction, checkedBy, Milliseconds, type OptionChecks } from '../options.ts'
import type { InputGuardrail, NamedAgent, OutputGuardrail } from './guardrail.ts'
import type { ModelRetry, ModelSettings } from './model-settings.ts'
import type { MCPServerOAuth } from './oauth-server.ts'
import { type OutputType, type Parsed, problemOfOutputType } from './output-format.ts'
import { problemOfHandoff, problemOfServer, problemOfTool } from './refused-definitions.ts'
import type { RunContext } from './run-context.ts'
import type { AnyTool } from './tool.ts'
import type { McpConfig, ToolServer } from './tool-server.ts'

/** A prompt template that the default vendor keeps. */
export type Prompt = {
  readonly promptId: string
  readonly version?: string | undefined
  readonly variables?: Readonly<Record<string, unknown>> | undefined
}

/** A call that was carried out, as `toolUseBehavior` functions see it. */
export type ToolResult = {
  readonly type: 'function_output'
  readonly tool: { readonly name: string }
  /** What the tool has returned. */
  readonly output: unknown
  /** The output as a Responses API item. */
  readonly item: Readonly<Record<string, unknown>>
}

/** Whether what the tools of a turn have returned is the answer. */
export type ToolUseBehavior =
  | 'run_llm_again'
  | 'stop_on_first_tool'
  | { readonly stopAtToolNames: readonly string[] }
  | ToolUseFunction

export type ToolUseFunction = {
  bivariant(
    context: RunContext<unknown>,
    results: readonly ToolResult[],
  ):
    | { readonly isFinalOutput: boolean; readonly finalOutput?: string }
    | Promise<{ readonly isFinalOutput: boolean; readonly finalOutput?: string }>
}['bivariant']

/** Text that is written for each turn. */
export type DynamicText = {
  bivariant(runContext: RunContext, agent: NamedAgent): Promise<string> | string
}['bivariant']

export type DynamicPrompt = {
  bivariant(runContext: RunContext, agent: NamedAgent): Promise<Prompt> | Prompt
}['bivariant']

/** An agent by the members that ours have, and those of `@openai/agents`. */
export type AnyAgent = {
  readonly name: string
  readonly instructions: unknown
  readonly handoffs: readonly unknown[]
  readonly tools: readonly unknown[]
  readonly inputGuardrails: readonly unknown[]
}

/** A handoff by the members that ours have, and those of `@openai/agents`. */
export type AnyHandoff = {
  readonly toolName: string
  readonly toolDescription: string
  readonly inputJsonSchema: unknown
  readonly agent: AnyAgent
}

/** `Name`, `Type` and `Target` are what the compiler finds out: how the agent is called, answers, and whom it hands over to. */
export type AgentOptions<
  Name extends string = string,
  Type extends OutputType = OutputType,
  Target extends AnyAgent | AnyHandoff = AnyAgent | AnyHandoff,
> = {
  readonly name: Name
  /** Text, or a function that writes it for each turn. Default: none. */
  readonly instructions?: string | DynamicText
  /** A prompt template of the default vendor, or a function that chooses it for each turn. */
  readonly prompt?: Prompt | DynamicPrompt
  /** What the agent is for: shown to other agents and to people. */
  readonly description?: string
  /** Shown to agents that may hand over to it. Default: the description. */
  readonly handoffDescription?: string
  /** Agents that it may hand the conversation over to; flows of the kind `handoff` add to them. */
  readonly handoffs?: readonly Target[]
  /** A model's name, a language model of the AI SDK, or a model object of one's own. Default: the server's model. */
  readonly model?: string | ModelObject
  readonly modelSettings?: ModelSettings
  readonly tools?: readonly AnyTool[]
  /** Tool servers; those that users must sign in to are declared by `new MCPServerOAuth({...})`. */
  readonly mcpServers?: readonly (ToolServer | MCPServerOAuth)[]
  readonly mcpConfig?: McpConfig
  readonly inputGuardrails?: readonly InputGuardrail[]
  readonly outputGuardrails?: readonly OutputGuardrail<NoInfer<Parsed<Type>>>[]
  /** What an answer must be. Default: text. */
  readonly outputType?: Type
  /** Default `run_llm_again`: the model sees what its tools have returned, and goes on. */
  readonly toolUseBehavior?: ToolUseBehavior
  /** True (default): once the agent has called a tool, `modelSettings.toolChoice` does not bind it any more. */
  readonly resetToolChoice?: boolean
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

const word = z.string().nullish()
const delay = z.number().nonnegative().max(2_147_483_647).optional()

const RetryChecks = z.strictObject({
  maxRetries: z.int().nonnegative().optional(),
  backoff: z
    .strictObject({
      initialDelayMs: delay,
      maxDelayMs: delay,
      multiplier: z.number().positive().optional(),
    } satisfies OptionChecks<NonNullable<ModelRetry['backoff']>>)
    .optional(),
} satisfies OptionChecks<ModelRetry>)

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
  reasoning: z.strictObject({ effort: word, summary: word, context: word, mode: word }).optional(),
  text: z.unknown().optional(),
  providerData: z.record(z.string(), z.unknown()).optional(),
  retry: RetryChecks.optional(),
  timeoutMs: Milliseconds.optional(),
} satisfies OptionChecks<ModelSettings>)

const strings = z.array(z.string()).optional()
const guardrails = z
  .array(z.looseObject({ execute: AnyFunction }, { error: 'must be an object with a function execute' }))
  .optional()

const ToolUseBehaviorChecks = z.union(
  [
    z.enum(['run_llm_again', 'stop_on_first_tool']),
    AnyFunction,
    z.strictObject({ stopAtToolNames: z.array(z.string()) }),
  ],
  { error: "must be 'run_llm_again', 'stop_on_first_tool', { stopAtToolNames: ['…'] }, or a function" },
)

const McpConfigChecks = z.strictObject({
  includeServerInToolNames: z.boolean().optional(),
  convertSchemasToStrict: z.boolean().optional(),
  errorFunction: AnyFunction.nullish(),
} satisfies OptionChecks<McpConfig>)

/** Checks what may be given to `new Agent`. */
export const AgentChecks = z.strictObject({
  name: z.string(),
  instructions: z.union([z.string(), AnyFunction]).optional(),
  prompt: z.unknown().optional(),
  description: z.string().optional(),
  handoffDescription: z.string().optional(),
  handoffs: z.array(checkedBy(problemOfHandoff)).optional(),
  model: z
    .union([z.string(), z.looseObject({})], { error: 'must be the name of a model, or a model object' })
    .optional(),
  modelSettings: ModelSettingsChecks.optional(),
  tools: z.array(checkedBy(problemOfTool)).optional(),
  mcpServers: z.array(checkedBy(problemOfServer)).optional(),
  mcpConfig: McpConfigChecks.optional(),
  inputGuardrails: guardrails,
  outputGuardrails: guardrails,
  outputType: checkedBy(problemOfOutputType).optional(),
  toolUseBehavior: ToolUseBehaviorChecks.optional(),
  resetToolChoice: z.boolean().optional(),
  conversationStarters: strings,
  quickReplies: strings,
  includeUsage: z.boolean().optional(),
  validationAttempts: z.int().nonnegative().optional(),
  raiseInputGuardrailError: z.boolean().optional(),
  handoffReminder: z.string().optional(),
  voice: z.string().optional(),
} satisfies OptionChecks<AgentOptions>)
