import type { Part } from '@bureau/client'
import type { Message } from '@bureau/protocol'
import { parsed } from '../ui/format.ts'

type Content = readonly { readonly text?: string; readonly refusal?: string }[]

/** What the messages of a run show, once it has ended. What users wrote is shown by the turn. */
export function partsOfMessages(messages: readonly Message[]): Part[] {
  const parts = new Map<string, Part>()
  messages.forEach((message, at) => {
    const part = partOf(message, `message-${at}`)
    if (part) parts.set(part.id, part)
    const { call_id: call, parent_run_id: parent, output } = message
    if (message.type?.endsWith('_call_output') && call !== undefined) change(parts, call, { output, state: 'done' })
    if (parent !== undefined && message.agent != null) nest(parts, parent, message.agent)
  })
  return [...parts.values()]
}

function partOf(message: Message, fallback: string): Part | undefined {
  const { type = 'message', role, id = fallback, agent, parent_run_id: parent } = message
  const base = { agent: agent ?? '', parent: parent ?? null }
  if (type === 'message' && role === 'assistant') {
    return { ...base, id, type: 'text', text: textOf(message['content']), state: 'done' }
  }
  if (type === 'reasoning') {
    const text = textOf(message['summary']) || textOf(message['content'])
    return text === '' ? undefined : { ...base, id, type: 'reasoning', text, state: 'done' }
  }
  return type.endsWith('_call') ? callOf(message, { ...base, id }) : undefined
}

/** A call is found by its `call_id`, and is over once its output is there. */
function callOf(message: Message, base: Pick<Part, 'id' | 'agent' | 'parent'>): Part {
  const { type = '', call_id: id = base.id, name, arguments: written, input = message['action'] } = message
  const given = written ?? input
  return {
    ...base,
    id,
    type: 'tool',
    name: typeof name === 'string' ? name : type,
    input: typeof given === 'string' ? parsed(given) : given,
    state: 'stopped',
  }
}

function change(parts: Map<string, Part>, id: string, changes: { output: unknown; state: 'done' }): void {
  const part = parts.get(id)
  if (part?.type === 'tool' || part?.type === 'agent') parts.set(id, { ...part, ...changes })
}

/** A call within which another agent speaks was a message to that agent. */
function nest(parts: Map<string, Part>, call: string, name: string): void {
  const part = parts.get(call)
  if (part?.type !== 'tool') return
  const { id, agent, parent, input, output, state } = part
  const nested = { id, agent, parent, type: 'agent' as const, name, input, ...(output !== undefined && { output }) }
  parts.set(call, { ...nested, state: state === 'done' ? 'done' : 'stopped' })
}

/** The text of a message's content or of a reasoning's summary. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return (content as Content).map(({ text, refusal }) => text ?? refusal ?? '').join('')
}
