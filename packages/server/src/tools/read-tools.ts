import { type FunctionTool, toAgentTools } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import type { ServerTool } from '../options.ts'

/**
 * The tools to serve, each under its name.
 *
 * @throws ConfigError two tools share a name, or a tool runs at the model provider; every problem is listed.
 */
export function readTools(tools: readonly ServerTool[]): FunctionTool[] {
  const served = new Map<string, FunctionTool>()
  const problems: string[] = []
  for (const tool of toAgentTools(tools)) {
    if (tool.type !== 'function')
      problems.push(`tools: "${tool.name}" runs at the model provider and cannot be served.`)
    else if (served.has(tool.name)) problems.push(`tools: two tools are named "${tool.name}".`)
    else served.set(tool.name, tool)
  }
  if (problems.length > 0) throw new ConfigError(problems.join('\n'))
  return [...served.values()]
}
