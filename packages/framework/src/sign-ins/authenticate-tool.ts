import type { Agent } from '../agency/agent.ts'
import type { Run } from '../run/run.ts'
import type { RunContext } from '../agency/run-context.ts'
import { type FunctionTool, functionTool } from '../agency/function-tool.ts'
import { authenticate } from './authenticate.ts'
import { AUTHENTICATE_TOOL } from '../agency/protected-servers.ts'
import type { Caller } from './reach.ts'
import { SignInFailed } from '../mcp/sign-in.ts'

const made = new WeakMap<Agent, FunctionTool>()

/**
 * The tool with which an agent's model asks for a protected server; made once per agent. Undefined without such servers.
 *
 * `runOf` finds the run of a call: given here because agents and tools would import each other in a circle.
 */
export function authenticateTool(agent: Agent, runOf: (runContext: RunContext) => Run): FunctionTool | undefined {
  if (agent.protectedServers.size === 0) return undefined
  const known = made.get(agent)
  if (known) return known
  const names = [...agent.protectedServers.keys()]
  const tool = functionTool({
    name: AUTHENTICATE_TOOL,
    description:
      'Signs the user in to a protected tool server and enables its tools. Call it before you use such a server, and ' +
      'again when a tool says that the user must sign in. One server at a time.',
    parameters: {
      type: 'object',
      properties: { server_name: { type: 'string', enum: names, description: 'The tool server.' } },
      required: ['server_name'],
      additionalProperties: false,
    },
    strict: true,
    repeatable: true,
    whenFailed: () => `Error: ${AUTHENTICATE_TOOL} could not be carried out. Check its arguments.`,
    execute: (input, runContext) => {
      const caller = { run: runOf(runContext), agent, runContext }
      const name = (input as { server_name?: unknown } | null)?.server_name
      return caller.run.toolServers.signIns.run(() => answer(caller, String(name)))
    },
  })
  made.set(agent, tool)
  return tool
}

async function answer(caller: Caller, name: string): Promise<string> {
  const { run, agent } = caller
  run.control.signal.throwIfAborted()
  const entry = agent.protectedServers.get(name)
  if (!entry)
    return `Error: there is no server ${JSON.stringify(name)}. Available: ${listed(agent.protectedServers.keys())}.`
  const again = run.toolServers.isActivated(agent.name, name)
  try {
    await authenticate(caller, entry)
  } catch (error) {
    if (!(error instanceof SignInFailed)) throw error
    caller.runContext.context.toolFailed?.(AUTHENTICATE_TOOL, error)
    return `Failed to authenticate "${name}": ${error.message}.`
  }
  if (again) return `The user's sign-in to "${name}" was checked and renewed where needed. Retry the tool call.`
  const deferred = [...agent.protectedServers.keys()].filter((other) => !run.toolServers.isActivated(agent.name, other))
  const rest = deferred.length === 0 ? '' : ` Not authenticated yet: ${listed(deferred)}.`
  return `Authenticated with "${name}". Its tools are available now.${rest}`
}

function listed(names: Iterable<string>): string {
  return [...names].map((name) => `"${name}"`).join(', ')
}
