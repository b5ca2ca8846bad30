import { ConfigError } from '@bureau/protocol'
import type { Agent } from './agent.ts'
import type { AgencyHandoff } from './handoff.ts'
import type { MessageTool } from './message-tool.ts'
import { TOOL_NAME } from './tool.ts'

/**
 * Checks that an agent's model can tell its functions apart: its own tools, those for messages, and handoffs. Tools of
 * tool servers are checked when they are listed.
 *
 * @throws ConfigError two have one name, or one has a name that model providers refuse; every problem is listed.
 */
export function requireUsableToolNames(
  agent: Agent,
  added: { readonly messageTools: readonly MessageTool[]; readonly handoffs: readonly AgencyHandoff[] },
): void {
  const names = [
    ...agent.tools.flatMap((tool) => (tool.type === 'function' ? [tool.name] : [])),
    ...added.messageTools.map((tool) => tool.name),
    ...added.handoffs.map((handoff) => handoff.toolName),
  ]
  const problems = new Set<string>()
  for (const [index, name] of names.entries()) {
    if (!TOOL_NAME.test(name)) problems.add(`the tool name "${name}" has other than 1 to 64 of A-Z a-z 0-9 _ -`)
    if (names.indexOf(name) < index) problems.add(`two tools are named "${name}"`)
  }
  if (problems.size > 0) throw new ConfigError(`Agent "${agent.name}": ${[...problems].join('; ')}.`)
}
