import type { WireItem } from '@bureau/protocol'
import type { AguiMessage, AguiPart } from './read-request.ts'
import { isUsable, toInputPart } from './content-parts.ts'
import { hostedItem, isHostedTool } from './hosted-calls.ts'

type Content = Extract<AguiMessage, { role: 'user' }>['content']
type AssistantMessage = Extract<AguiMessage, { role: 'assistant' }>
type ToolMessage = Extract<AguiMessage, { role: 'tool' }>

/**
 * AG-UI messages as Responses API items, without ids: the provider takes an item with an id for the one it stored, with
 * everything that belonged to it.
 *
 * What only a client shows (activities, reasoning), what agents said to each other and parts that no model can take are left out.
 *
 * @throws UnusableInput a content part lacks what its kind must have.
 */
export function toWireItems(messages: readonly AguiMessage[]): WireItem[] {
  const hosted = new Set(messages.flatMap((message) => hostedCallIds(message)))
  return messages.flatMap((message) => {
    if (message.subagentRunId !== undefined) return []
    switch (message.role) {
      case 'user':
        return hasContent(message.content) ? [inputMessage('user', message.content)] : []
      case 'system':
      case 'developer':
        return [inputMessage('system', message.content)]
      case 'assistant':
        return assistantItems(message)
      case 'tool':
        return hosted.has(message.toolCallId) ? [] : [outputItem(message)]
      case 'activity':
      case 'reasoning':
        return []
    }
  })
}

function hasContent(content: Content): boolean {
  return typeof content === 'string' ? content !== '' : content.some(isUsable)
}

function inputMessage(role: 'user' | 'system', content: Content): WireItem {
  return { type: 'message', role, content: typeof content === 'string' ? content : inputParts(content) }
}

function inputParts(content: readonly AguiPart[]): WireItem[] {
  return content.filter(isUsable).map(toInputPart)
}

/** The kinds of parts that no model can take. */
export function unusableKinds(messages: readonly AguiMessage[]): string[] {
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? (content as AguiPart[]) : []))
  return parts.filter((part) => !isUsable(part)).map(({ type }) => type.slice(0, 50))
}

function hostedCallIds(message: AguiMessage): string[] {
  if (message.role !== 'assistant') return []
  return (message.toolCalls ?? []).filter((call) => isHostedTool(call.function.name)).map((call) => call.id)
}

function assistantItems(message: AssistantMessage): WireItem[] {
  const text = message.content ? [{ type: 'message', role: 'assistant', content: message.content }] : []
  const calls = (message.toolCalls ?? []).map(({ id, function: { name, arguments: args } }): WireItem | undefined => {
    if (isHostedTool(name)) return hostedItem(name, { id, arguments: args })
    return { type: 'function_call', call_id: id, name, arguments: args }
  })
  return [...text, ...calls.filter((item) => item !== undefined)]
}

function outputItem({ toolCallId, content, error }: ToolMessage): WireItem {
  const output = typeof content === 'string' ? content : inputParts(content)
  return { type: 'function_call_output', call_id: toolCallId, output: output.length > 0 ? output : (error ?? '') }
}
