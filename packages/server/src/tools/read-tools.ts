import { type FunctionTool, problemOfTool, problemOfUse, toAgentTools } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import type { ServerTool } from '../options.ts'

/**
 * The tools to serve, each under its name.
 *
 * @throws ConfigError an entry is no tool, two tools share a name, or one runs at the model provider; every problem is listed.
 */
export function readTools(tools: readonly ServerTool[]): FunctionTool[] {
  refuse(tools.map(problemOfTool).map((problem, at) => problem && `tools.${at} ${problem}.`))
  const served = new Map<string, FunctionTool>()
  const problems = toAgentTools(tools).map((tool) => {
    const problem = problemOfUse(tool)
    if (problem !== undefined) return `tools: ${problem}.`
    if (tool.type !== 'function') return `tools: "${tool.name}" runs at the model provider and cannot be served.`
    if (served.has(tool.name)) return `tools: two tools are named "${tool.name}".`
    served.set(tool.name, tool)
    return undefined
  })
  refuse(problems)
  return [...served.values()]
}

function refuse(problems: readonly (string | undefined)[]): void {
  const found = problems.filter((problem) => problem !== undefined)
  if (found.length > 0) throw new ConfigError(found.join('\n'))
}
