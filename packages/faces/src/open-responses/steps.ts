import { fieldsOf, type RunEventOf, type WireItem } from '@bureau/protocol'
import { jsonOrText } from '../answer.ts'
import type { OutputItem } from './output-items.ts'

/** What a function of an agent's is: a tool, a handoff, or the way in which it asks another agent. */
export type KindOfCall = (agent: string, name: string) => 'tool' | 'handoff' | 'message'

type Open = (item: WireItem) => { readonly entry: OutputItem; readonly text: string }
type Close = (entry: OutputItem, item: WireItem) => string

type ItemCreated = RunEventOf<'item.created'>

/**
 * What the agents of a run do, as items of the output: types of our own, as the specification wants it (`bureau:…`). Never a
 * `function_call`, which the caller would take for its own to carry out.
 */
export class Steps {
  readonly #kindOf: KindOfCall
  readonly #open: Open
  readonly #close: Close
  readonly #calls = new Map<string, { readonly entry: OutputItem; readonly item: WireItem }>()

  constructor(kindOf: KindOfCall, open: Open, close: Close) {
    this.#kindOf = kindOf
    this.#open = open
    this.#close = close
  }

  /** A call of a tool of the agent's own, its output, or a handoff. */
  onItem(event: ItemCreated, item: WireItem): string {
    switch (event.name) {
      case 'tool_called':
        return item.type === 'function_call' ? this.#called(event, item) : ''
      case 'tool_output':
        return this.#returned(item)
      case 'handoff_occured':
        return this.#handedOver(event)
      default:
        return ''
    }
  }

  /** What a tool has told its client itself. */
  custom({ source, data }: RunEventOf<'custom'>): string {
    return this.#whole({ type: 'bureau:event', agent: source.agent, data })
  }

  /** A user must sign in to a tool server, or the run does not go on. */
  signIn({ server, auth_url, state }: RunEventOf<'oauth.redirect'>): string {
    return this.#whole({ type: 'bureau:event', data: { type: 'oauth_redirect', server, auth_url, state } })
  }

  #called({ source: { agent } }: ItemCreated, call: WireItem): string {
    const kind = this.#kindOf(agent, String(call['name']))
    if (kind === 'handoff') return ''
    const item = kind === 'tool' ? toolCall(agent, call) : agentMessage(agent, call)
    const { entry, text } = this.#open({ ...item, status: 'in_progress' })
    this.#calls.set(call.call_id ?? '', { entry, item })
    return text
  }

  #returned({ call_id: id = '', output }: WireItem): string {
    const call = this.#calls.get(id)
    if (!call) return ''
    this.#calls.delete(id)
    const answer = call.item.type === 'bureau:tool_call' ? { output } : { answer: output }
    return this.#close(call.entry, { ...call.item, status: 'completed', ...answer })
  }

  #handedOver({ item }: ItemCreated): string {
    const { source_agent: from, target_agent: to } = item as { source_agent?: Named; target_agent?: Named }
    return this.#whole({ type: 'bureau:handoff', from: from?.name ?? null, to: to?.name ?? null })
  }

  #whole(item: WireItem): string {
    const { entry, text } = this.#open({ ...item, status: 'in_progress' })
    return text + this.#close(entry, { ...item, status: 'completed' })
  }
}

type Named = { readonly name?: string }

function toolCall(agent: string, { call_id: id, name, arguments: args }: WireItem): WireItem {
  return { type: 'bureau:tool_call', agent, name, call_id: id!, arguments: args, output: null }
}

function agentMessage(caller: string, { call_id: id, arguments: args }: WireItem): WireItem {
  const { recipient_agent: agent = null, message = null } = fieldsOf(jsonOrText(String(args)))
  return { type: 'bureau:agent_message', caller, agent, call_id: id!, message, answer: null }
}
