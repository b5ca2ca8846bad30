import { hash } from 'node:crypto'
import { ConfigError, fieldsOf } from '@bureau/protocol'
import { AUTHENTICATE_TOOL } from '../agency/protected-servers.ts'
import { callBack } from '../agency/callback.ts'
import type { RunContext } from '../agency/run-context.ts'
import { type FunctionTool, functionTool, TOOL_FAILURE } from '../agency/function-tool.ts'
import type { ListedTool, McpConfig, ToolServer } from '../agency/tool-server.ts'
import { strictSchema } from '../agency/tool-schema.ts'
import type { McpConnections } from './connections.ts'
import { withSharedListing } from './shared-listing.ts'

const origins = new WeakMap<object, string>()

/** The name of the tool server that a tool comes from; undefined for all other tools. */
export function toolServerOf(tool: object): string | undefined {
  return origins.get(tool)
}

type ServerToolsOptions = {
  /** An agent of either kind: of runs, or of realtime sessions. */
  readonly agent: {
    readonly name: string
    readonly mcpConfig: McpConfig
    readonly tools: readonly { readonly name: string }[]
  }
  readonly runContext: RunContext
  /** Those of the process, which warns of mistakes. */
  readonly mcp: McpConnections
  /** Connected servers, in order. */
  readonly servers: readonly ToolServer[]
}

/**
 * The tools of an agent's connected servers, made anew from what the servers list now, under the names that they have there.
 *
 * @throws ConfigError two tools, of servers or of the agent, would have one name. CallbackFailed a filter fails.
 */
export async function serverTools(options: ServerToolsOptions): Promise<FunctionTool[]> {
  const { agent } = options
  const own = [...agent.tools.map((tool) => tool.name), AUTHENTICATE_TOOL]
  const taken = new Map(own.map((name) => [name, `the agent's own tool "${name}"`]))
  const tools: FunctionTool[] = []
  for (const server of options.servers) {
    for (const listed of await offeredTools(server, options)) {
      const name = nameFor(listed, server, agent)
      const what = `the tool "${listed.name}" of the tool server "${server.name}"`
      const other = taken.get(name)
      if (other !== undefined) throw clash(`${what} and ${other} have one name, "${name}"`, agent)
      taken.set(name, what)
      const made = asFunction(listed, { server, agent, name })
      origins.set(made, server.name)
      tools.push(made)
    }
  }
  return tools
}

type Owner = ServerToolsOptions['agent']

/** What the server lists, less what its filter takes out. */
async function offeredTools(server: ToolServer, { agent, runContext, mcp }: ServerToolsOptions): Promise<ListedTool[]> {
  const { toolFilter: filter, name: serverName } = server
  const listed = await withSharedListing(server).listTools()
  mcp.checkNames(server, listed)
  if (typeof filter === 'function') {
    const offered: ListedTool[] = []
    const context = { runContext, agent, serverName }
    const callback = `the toolFilter of the tool server "${serverName}" for the agent "${agent.name}"`
    for (const tool of listed) if (await callBack(callback, () => filter(context, tool))) offered.push(tool)
    return offered
  }
  const { allowedToolNames: allowed = [], blockedToolNames: blocked = [] } = filter ?? {}
  return listed.filter(({ name }) => (allowed.length === 0 || allowed.includes(name)) && !blocked.includes(name))
}

/** The function by which a model calls the tool. */
function asFunction(
  listed: ListedTool,
  { server, agent, name }: { readonly server: ToolServer; readonly agent: Owner; readonly name: string },
): FunctionTool {
  const shared = withSharedListing(server)
  const whenFailed = failureOf(
    server.errorFunction === undefined ? agent.mcpConfig.errorFunction : server.errorFunction,
  )
  const { inputSchema, description = '' } = listed
  const { type: _type, ...schema } = inputSchema
  const parameters = { ...inputSchema, type: 'object', properties: {}, required: [], ...schema }
  const strict = agent.mcpConfig.convertSchemasToStrict === true ? strictSchema(parameters) : undefined
  const made = functionTool({
    name,
    description,
    parameters: strict ?? { additionalProperties: true, ...parameters },
    strict: strict !== undefined,
    repeatable: isRepeatable(server, listed),
    whenFailed,
    execute: (input, _runContext, { signal }) => call(shared, listed.name, { input: { ...fieldsOf(input) }, signal }),
  })
  const { toolInputGuardrails: inputGuardrails, toolOutputGuardrails: outputGuardrails } = server
  const asks = requiresApproval(server, listed.name) && { needsApproval: async () => true }
  return { ...made, ...asks, inputGuardrails, outputGuardrails }
}

/** Whether a call may be made again when nobody knows what became of it. */
function isRepeatable({ trusted = false }: ToolServer, { annotations }: ListedTool): boolean {
  return trusted && (annotations?.readOnlyHint === true || annotations?.idempotentHint === true)
}

function requiresApproval({ requireApproval = 'never' }: ToolServer, name: string): boolean {
  return typeof requireApproval === 'string' ? requireApproval === 'always' : requireApproval.includes(name)
}

type WhenFailed = (error: unknown, runContext: RunContext) => string | Promise<string>

/** The error text for the model: of the server's or the agent's own function, or a general one. Null: the run fails. */
function failureOf(own: McpConfig['errorFunction']): WhenFailed {
  if (own === undefined) return () => TOOL_FAILURE
  if (own !== null) return (error, context) => own({ context, error })
  return (error) => {
    throw error
  }
}

async function call(
  server: ToolServer,
  name: string,
  { input, signal }: { readonly input: Record<string, unknown>; readonly signal: AbortSignal | undefined },
): Promise<unknown> {
  const options = signal && { signal }
  if (!server.useStructuredContent || !server.callToolResult) return server.callTool(name, input, undefined, options)
  const { content, structuredContent, isError } = await server.callToolResult(name, input, undefined, options)
  return structuredContent === undefined || isError === true ? content : JSON.stringify(structuredContent)
}

const MAX_NAME_LENGTH = 64

/** The tool's own name, as far as model providers take it: letters, digits, `_` and `-`, at most 64 of them. */
function nameFor({ name }: ListedTool, server: ToolServer, { mcpConfig }: Owner): string {
  const full = mcpConfig.includeServerInToolNames === true ? `mcp_${server.name}__${name}` : name
  const usable = full.replace(/[^A-Za-z0-9_-]/g, '_')
  if (usable.length <= MAX_NAME_LENGTH) return usable
  const digest = hash('sha256', full, 'hex').slice(0, 8)
  return `${usable.slice(0, MAX_NAME_LENGTH - digest.length - 1)}_${digest}`
}

function clash(what: string, { name, mcpConfig }: Owner): ConfigError {
  const choose = 'Leave one of them out with the toolFilter of its server'
  const prefix = mcpConfig.includeServerInToolNames ? '' : ', or set mcpConfig: { includeServerInToolNames: true }'
  return new ConfigError(`Agent "${name}": ${what}. ${choose}${prefix}.`)
}
