import { z } from 'zod'
import type { NamedAgent } from './guardrail.ts'
import { AnyFunction } from '../options.ts'
import type { RunContext } from './run-context.ts'
import type { ToolGuardrail } from './function-tool.ts'

/** A tool as an MCP server lists it. */
export type ListedTool = {
  readonly name: string
  readonly description?: string | undefined
  /** JSON Schema of an object. */
  readonly inputSchema: Readonly<Record<string, unknown>>
  /** What the server says of it. Anybody can say anything, so it counts for trusted servers alone. */
  readonly annotations?: ToolHints | undefined
}

type ToolHints = { readonly readOnlyHint?: boolean | undefined; readonly idempotentHint?: boolean | undefined }

/** Which of a server's tools an agent gets. */
export type ToolFilter =
  | { readonly allowedToolNames?: readonly string[]; readonly blockedToolNames?: readonly string[] }
  | ToolFilterFunction

const toolNames = z.array(z.string()).optional()

/** A misspelt list would leave tools open that were meant to be blocked. */
export const ToolFilterChecks = z.union([
  AnyFunction,
  z.strictObject({ allowedToolNames: toolNames, blockedToolNames: toolNames }),
])

type ToolFilterFunction = {
  // A method, so that a filter may ask for more of its arguments' types.
  bivariant(
    context: { readonly runContext: RunContext<unknown>; readonly agent: NamedAgent; readonly serverName: string },
    tool: ListedTool,
  ): Promise<boolean> | boolean
}['bivariant']

/** About which of a server's tools a person must decide before each call: all, none, or those of these names. */
export type RequireApproval = 'always' | 'never' | readonly string[]

export const RequireApprovalChecks = z.union([z.enum(['always', 'never']), z.array(z.string())], {
  error: "must be 'always', 'never', or a list of tool names",
})

/** A connection to an MCP server: ours, or one of `@openai/agents`, which have the same members. */
export interface ToolServer {
  readonly name: string
  readonly toolFilter?: ToolFilter | undefined
  /** Default `never`. */
  readonly requireApproval?: RequireApproval | undefined
  /** True: what the server says of its tools counts. Default false. */
  readonly trusted?: boolean | undefined
  readonly toolInputGuardrails?: readonly ToolGuardrail[] | undefined
  readonly toolOutputGuardrails?: readonly ToolGuardrail[] | undefined
  /** What the model gets when a call fails. Null: the run fails. */
  readonly errorFunction?: ToolServerErrorFunction | null | undefined
  /** True: the structured content of an answer, where there is any, is what the model gets. Default false. */
  readonly useStructuredContent?: boolean | undefined
  connect(): Promise<void>
  close(): Promise<void>
  listTools(): Promise<readonly ListedTool[]>
  /** The parts of the answer. */
  callTool(
    name: string,
    input: Record<string, unknown> | null,
    meta?: Record<string, unknown> | null,
    options?: { readonly signal?: AbortSignal },
  ): Promise<readonly unknown[]>
  /** The whole answer, for servers that can give it. */
  callToolResult?(
    name: string,
    input: Record<string, unknown> | null,
    meta?: Record<string, unknown> | null,
    options?: { readonly signal?: AbortSignal },
  ): Promise<ToolServerResult>
}

export type ToolServerResult = {
  readonly content: readonly unknown[]
  readonly structuredContent?: unknown
  readonly isError?: boolean | undefined
}

export type ToolServerErrorFunction = {
  bivariant(args: { readonly context: RunContext<unknown>; readonly error: unknown }): string | Promise<string>
}['bivariant']

/** How an agent takes the tools of its servers. */
export type McpConfig = {
  /** True: a tool is named `mcp_<server>__<tool>`. Default false: as the server names it. */
  readonly includeServerInToolNames?: boolean | undefined
  /** True: schemas are made strict where that does not change their meaning. Default false. */
  readonly convertSchemasToStrict?: boolean | undefined
  /** What the model gets when a call fails, for servers without a function of their own. Null: the run fails. */
  readonly errorFunction?: ToolServerErrorFunction | null | undefined
}
