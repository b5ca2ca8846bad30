import { partsOf } from '@bureau/client'
import type { Message } from '@bureau/protocol'
import type { Turn } from '../chats/chat.ts'

/** An item of the history of a realtime session. */
export type SpokenItem = {
  readonly item_id: string
  readonly type: string
  readonly role?: string
  readonly content?: readonly { readonly text?: string; readonly transcript?: string | null }[]
  readonly name?: string
  readonly arguments?: string
  readonly output?: string | null
}

/** What was said aloud, as turns of a chat: each begins with what the user has said. */
export function spokenTurns(history: readonly SpokenItem[], agent: string | null, startedAt: number): Turn[] {
  const turns: SpokenItem[][] = []
  for (const item of history) {
    if (item.role === 'user' || turns.length === 0) turns.push([item])
    else turns.at(-1)!.push(item)
  }
  return turns.map((items) => turnOf(items, agent, startedAt))
}

function turnOf(items: readonly SpokenItem[], agent: string | null, startedAt: number): Turn {
  const [first, ...rest] = items
  const isAsked = first?.role === 'user'
  const messages = (isAsked ? rest : items).flatMap((item) => messagesOf(item, agent))
  const text = isAsked ? textOf(first) : ''
  return {
    id: `spoken-${first?.item_id}`,
    // What was said is written down a moment later.
    text: isAsked && text === '' ? '…' : text,
    files: [],
    agent,
    run: null,
    status: 'completed',
    parts: partsOf(messages),
    messages: text === '' ? messages : [{ role: 'user', content: text }, ...messages],
    usage: null,
    error: null,
    startedAt,
    endedAt: Date.now(),
    times: {},
  }
}

const textOf = ({ content = [] }: SpokenItem): string =>
  content.map(({ text, transcript }) => text ?? transcript ?? '').join('')

function messagesOf(item: SpokenItem, agent: string | null): Message[] {
  const { item_id: id, type, name, arguments: args = '{}', output } = item
  const of = { agent, callerAgent: null }
  if (type === 'function_call') {
    const call = { type, id, call_id: id, name, arguments: args, ...of }
    return [
      call,
      ...(output == null ? [] : [{ type: 'function_call_output', call_id: id, output, ...of }]),
    ] as Message[]
  }
  const text = textOf(item)
  if (item.role !== 'assistant' || text === '') return []
  const content = [{ type: 'output_text', text, annotations: [] }]
  return [{ type: 'message', id, role: 'assistant', status: 'completed', content, ...of }]
}
