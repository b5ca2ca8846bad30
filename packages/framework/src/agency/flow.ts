import { ConfigError } from '@bureau/protocol'
import { z } from 'zod'
import { Agent } from './agent.ts'
import { otherCopy } from './copies.ts'
import { isMessageTool, type MessageTool, SEND_MESSAGE } from './message-tool.ts'

/** `message`: the sender asks and gets an answer back. `handoff`: the recipient takes over the conversation. */
export type FlowKind = 'message' | 'handoff'

/** A permission for one agent to message, or to hand over to, another. */
export type Flow = { readonly sender: Agent; readonly recipient: Agent } & (
  | { readonly kind: 'message'; readonly tool: MessageTool }
  | { readonly kind: 'handoff' }
)

/**
 * `[sender, recipient]` for messages, `[sender, recipient, 'handoff']` for a handoff, `[sender, recipient, tool]` for
 * messages by a tool made by `messageTool()`.
 */
export type FlowOption = readonly [sender: Agent, recipient: Agent, how?: FlowKind | MessageTool]

/** Flows along a chain: `chain(a, b, c)` lets `a` message `b`, and `b` message `c`. */
export function chain(...agents: readonly Agent[]): FlowOption[] {
  return agents.slice(1).map((recipient, index) => [agents[index]!, recipient])
}

/** A check of one flow by itself. */
export const AFlow = z.array(z.unknown()).superRefine(([sender, recipient, how = 'message', ...others], context) => {
  if (!(sender instanceof Agent && recipient instanceof Agent) || others.length > 0) {
    const copy = otherCopy(sender) ?? otherCopy(recipient)
    const rule = 'must be [sender, recipient] or [sender, recipient, how], with two Agents.'
    context.addIssue(copy === undefined ? rule : `an agent ${copy}.`)
  } else if (how !== 'message' && how !== 'handoff' && !isMessageTool(how as object)) {
    context.addIssue("the third member is 'message', 'handoff' or a tool made by messageTool().")
  }
})

/** @throws ConfigError an agent would message itself, or a flow stands twice; every problem is listed. */
export function readFlows(options: readonly FlowOption[]): readonly Flow[] {
  const seen = new Set<string>()
  const problems: string[] = []
  const flows = options.map(([sender, recipient, how = 'message']): Flow => {
    const name = `${sender.name} -> ${recipient.name}`
    const label = typeof how === 'string' ? how : how.name
    if (sender === recipient) problems.push(`flows: "${name}" has the same agent on both ends.`)
    if (seen.has(`${name} ${label}`)) problems.push(`flows: "${name}" (${label}) is listed twice.`)
    seen.add(`${name} ${label}`)
    if (how === 'handoff') return Object.freeze({ sender, recipient, kind: how })
    return Object.freeze({ sender, recipient, kind: 'message', tool: how === 'message' ? SEND_MESSAGE : how })
  })
  if (problems.length > 0) throw new ConfigError(problems.join('\n'))
  return flows
}
