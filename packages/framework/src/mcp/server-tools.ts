import { createHash } from 'node:crypto'
import {
  type Agent as SdkAgent,
  type AgentOutputType,
  type FunctionTool,
  type MCPServer,
  mcpToFunctionTool,
  type RunContext,
  type Tool as SdkTool,
} from '#agents-core'
import { ConfigError } from '@bureau/protocol'
import type { AgencyContext } from '../run-scope.ts'
import { SDK_TOOL_FAILURE } from '../tool.ts'
import { AUTHENTICATE_TOOL } from './protected-servers.ts'
import { withSharedListing } from './shared-listing.ts'

const origins = new WeakMap<object, string>()

/** The name of the tool server that a tool comes from; undefined for all other tools. */
export function toolServerOf(tool: object): string | undefined {
  return origins.get(tool)
}

export type ServerToolsOptions = {
  /** An agent of either kind: of runs, or of realtime sessions. */
  readonly agent: Pick<SdkAgent<AgencyContext, AgentOutputType>, 'name' | 'mcpConfig'> & {
    readonly tools: readonly { readonly name: string }[]
  }
  readonly runContext: RunContext<AgencyContext>
  /** Connected servers, in order. */
  readonly servers: readonly MCPServer[]
}

/**
 * The tools of an agent's connected servers, made anew from what the servers list now, under the names that they have there.
 *
 * @throws ConfigError two tools, of servers or of the agent, would have one name.
 */
export async function serverTools(options: ServerToolsOptions): Promise<SdkTool<AgencyContext>[]> {
  const { agent } = options
  const own = [...agent.tools.map((tool) => tool.name), AUTHENTICATE_TOOL]
  const taken = new Map(own.map((name) => [name, `the agent's own tool "${name}"`]))
  const tools: SdkTool<AgencyContext>[] = []
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

type Listed = Awaited<ReturnType<MCPServer['listTools']>>[number]
type Owner = ServerToolsOptions['agent']

/** What the server lists, less what its filter takes out. */
async function offeredTools(server: MCPServer, { agent, runContext }: ServerToolsOptions): Promise<Listed[]> {
  const { toolFilter: filter, name: serverName } = server
  const listed = structuredClone(await withSharedListing(server).listTools())
  if (typeof filter === 'function') {
    const offered: Listed[] = []
    // The type of a filter's agent is that of an agent with any context.
    const context = { runContext, agent: agent as never, serverName }
    for (const tool of listed) if (await filter(context, tool)) offered.push(tool)
    return offered
  }
  const { allowedToolNames: allowed = [], blockedToolNames: blocked = [] } = filter ?? {}
  return listed.filter(({ name }) => (allowed.length === 0 || allowed.includes(name)) && !blocked.includes(name))
}

/** The SDK's function, except for its name: in that the SDK replaces whatever is no letter or digit. */
function asFunction(
  listed: Listed,
  { server, agent, name }: { readonly server: MCPServer; readonly agent: Owner; readonly name: string },
): FunctionTool<AgencyContext> {
  const { convertSchemasToStrict = false, errorFunction = toolFailureText } = agent.mcpConfig
  const options = {
    errorFunction: errorFunction && reporting(name, errorFunction),
  }
  const made = mcpToFunctionTool(listed, withSharedListing(server), convertSchemasToStrict, options)
  return { ...(made as unknown as FunctionTool<AgencyContext>), name }
}

type ErrorFunction = NonNullable<Owner['mcpConfig']['errorFunction']>

/** As the SDK tells the model of it. */
const toolFailureText: ErrorFunction = () => SDK_TOOL_FAILURE

function reporting(tool: string, tell: ErrorFunction): ErrorFunction {
  return (args) => {
    const { toolFailed } = args.context.context as Partial<AgencyContext>
    toolFailed?.call(args.context.context, tool, args.error)
    return tell(args)
  }
}

const MAX_NAME_LENGTH = 64

/** The tool's own name, as far as model providers take it: letters, digits, `_` and `-`, at most 64 of them. */
function nameFor({ name }: Listed, server: MCPServer, { mcpConfig }: Owner): string {
  const full = mcpConfig.includeServerInToolNames === true ? `mcp_${server.name}__${name}` : name
  const usable = full.replace(/[^A-Za-z0-9_-]/g, '_')
  if (usable.length <= MAX_NAME_LENGTH) return usable
  const digest = createHash('sha256').update(full).digest('hex').slice(0, 8)
  return `${usable.slice(0, MAX_NAME_LENGTH - digest.length - 1)}_${digest}`
}

function clash(what: string, { name, mcpConfig }: Owner): ConfigError {
  const choose = 'Leave one of them out with the toolFilter of its server'
  const prefix = mcpConfig.includeServerInToolNames ? '' : ', or set mcpConfig: { includeServerInToolNames: true }'
  return new ConfigError(`Agent "${name}": ${what}. ${choose}${prefix}.`)
}
