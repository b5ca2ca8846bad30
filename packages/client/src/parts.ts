import type { Message } from '@bureau/protocol'
import { parsed } from './send.ts'
import type { Approval, Item, ModelEvent, StreamEvent } from './stream-event.ts'

type PartBase = {
  /** Unique within the run, and the same in every replay of it. */
  readonly id: string
  /** Who did it; empty for sign-ins. */
  readonly agent: string
  /** The `agent` part that it belongs to; null: the conversation with the user. */
  readonly parent: string | null
}

type Written = {
  readonly type: 'text' | 'reasoning'
  readonly text: string
  readonly state: 'streaming' | 'done'
}

type ToolPart = {
  readonly type: 'tool'
  readonly name: string
  /** The arguments: text while they are being written, then what they say. */
  readonly input: unknown
  readonly output?: unknown
  /** `approval`: the call waits for a person. `stopped`: the run ended before the tool did. */
  readonly state: 'input' | 'approval' | 'running' | 'done' | 'stopped'
  /** What there is to decide, while the state is `approval`. */
  readonly approval?: Approval
}

/** A message to another agent, whose own parts have it as their `parent`. */
type AgentPart = {
  readonly type: 'agent'
  readonly name: string
  readonly input: unknown
  readonly output?: unknown
  readonly state: 'running' | 'done' | 'stopped'
}

type SignInPart = {
  readonly type: 'sign-in'
  readonly server: string
  /** To be opened in the user's browser. */
  readonly url: string
  readonly state: 'pending' | 'authorized' | 'failed'
}

/** A picture that the model has made, in base64. */
type FilePart = { readonly type: 'file'; readonly mediaType: string; readonly data: string }

type CustomPart = { readonly type: 'custom'; readonly name: string; readonly data: Readonly<Record<string, unknown>> }

/** One thing to show of a run. A part never changes: another one with its id takes its place. */
export type Part = PartBase & (Written | ToolPart | AgentPart | SignInPart | FilePart | CustomPart)

/** What a piece of text belongs to, by the kind of its event. A refusal is text too. */
const TEXT_DELTAS: Readonly<Record<string, Written['type']>> = {
  'response.output_text.delta': 'text',
  'response.refusal.delta': 'text',
  'response.reasoning_summary_text.delta': 'reasoning',
  'response.reasoning_text.delta': 'reasoning',
}

type Source = Pick<Message, 'agent' | 'parent_run_id'>

/** What there is to show of messages that are kept: what a run has produced, or a part of a history. */
export function partsOf(messages: readonly Message[]): readonly Part[] {
  const parts = new Parts()
  parts.add({ type: 'reset', new_messages: messages })
  parts.end(null)
  return parts.all
}

/** The parts of a run, made of its events. */
export class Parts {
  #parts: Part[] = []
  #at = new Map<string, number>()
  /** Calls by the id of their item, under which their arguments are streamed. */
  readonly #calls = new Map<string, string>()
  /** How many items have come without an id: the next one is streamed under this number. */
  #unnamed: number
  /** The next `custom` part has this number. */
  #sent: number
  #snapshot: readonly Part[] | undefined

  /** @param before Those of the run so far, when it goes on after an approval. */
  constructor(before: readonly Part[] = []) {
    this.#replace([...before])
    this.#unnamed = this.#sent = before.length
  }

  /** In the order in which they began. The same array as long as nothing changes. */
  get all(): readonly Part[] {
    return (this.#snapshot ??= [...this.#parts])
  }

  add(event: StreamEvent): void {
    switch (event.type) {
      case 'raw_response_event':
        return this.#addModelEvent(event.data, event)
      case 'run_item_stream_event':
        return this.#addItem(event.item.raw_item, event)
      case 'agent_updated_stream_event':
        return this.#enter(event)
      case 'oauth_redirect': {
        const { state: id, server, auth_url: url } = event
        return this.#put({ ...baseOf(id, {}), type: 'sign-in', server, url, state: 'pending' })
      }
      case 'oauth_status': {
        const { state: id, status } = event
        const state = status === 'authorized' || status === 'pending' ? status : 'failed'
        return this.#change(id, (part) => part.type === 'sign-in' && { ...part, state })
      }
      case 'approval_requested': {
        const { type: _, ...approval } = event
        return this.askFor(approval)
      }
      case 'run_resumed':
        return event.withdrawn.forEach((id) => this.#withdraw(id))
      case 'custom': {
        const { name, data } = event
        return this.#put({ ...baseOf(`custom-${this.#sent++}`, event), type: 'custom', name, data })
      }
      case 'reset':
        return this.#reset(event)
      case 'error': // The result of the run says so too.
    }
  }

  /** Nothing goes on in a run that is over. A run that waits keeps its calls; those that it no longer waits for are decided on. */
  end(waitsFor: readonly Approval[] | null): void {
    // Where the log of the run is lost, its end alone says what is asked.
    for (const approval of waitsFor ?? []) this.askFor(approval)
    for (const { id } of this.#parts) {
      if (waitsFor?.every(({ call_id: callId }) => callId !== id)) this.decide(id)
      this.#change(id, (part) => {
        if (part.type === 'text' || part.type === 'reasoning') return { ...part, state: 'done' }
        if (part.type === 'tool' || part.type === 'agent')
          return part.state !== 'done' && !waitsFor && { ...part, state: 'stopped' }
        return part.type === 'sign-in' && part.state === 'pending' && { ...part, state: 'failed' }
      })
    }
  }

  /** A call has been decided on. */
  decide(callId: string): void {
    this.#change(callId, (part) => {
      return part.type === 'tool' && part.state === 'approval' && { ...withoutApproval(part), state: 'running' }
    })
  }

  /** A call waits for a decision. */
  askFor(approval: Approval): void {
    const { call_id: id, tool: name, agent, arguments: input } = approval
    const known = this.#find(id)
    const base = { id, agent, parent: known?.parent ?? null }
    this.#put({ ...base, type: 'tool', name, input: parsed(input), state: 'approval', approval })
  }

  /** Nothing of it is shown any more; it is written anew, under another id. */
  #withdraw(id: string): void {
    const callId = this.#calls.get(id) ?? id
    this.#replace(this.#parts.filter((part) => part.id !== callId))
  }

  #addModelEvent(event: ModelEvent, source: Source): void {
    const { type, item_id: itemId = `item-${this.#unnamed}`, delta = '', item } = event
    const written = TEXT_DELTAS[type]
    if (written) {
      const part = this.#find(itemId)
      const text = (part?.type === written ? part.text : '') + delta
      this.#put({ ...baseOf(itemId, source), type: written, text, state: 'streaming' })
    } else if (type === 'response.function_call_arguments.delta') {
      this.#change(this.#calls.get(itemId) ?? '', (part) => {
        return part.type === 'tool' && { ...part, input: String(part.input) + delta }
      })
    } else if (type === 'response.output_item.added' && item) this.#beginCall(item, source)
  }

  #beginCall(item: Item, source: Source): void {
    const { type = '', id = `item-${this.#unnamed}`, call_id: callId = id, name = type } = item
    if (!type.endsWith('_call')) return
    this.#calls.set(id, callId)
    this.#put({ ...baseOf(callId, source), type: 'tool', name, input: '', state: 'input' })
  }

  /** A complete item says all that was streamed of it. */
  #addItem(item: Item, source: Source): void {
    const { type = 'message', id = `item-${this.#unnamed++}`, call_id: callId = id } = item
    if (type === 'reasoning' || (type === 'message' && item['role'] === 'assistant')) {
      const text = textOf(item['summary']) || textOf(item['content'])
      const written = type === 'message' ? 'text' : type
      if (text !== '') this.#put({ ...baseOf(id, source), type: written, text, state: 'done' })
    } else if (type.endsWith('_call_output')) {
      const output = item['output']
      this.#change(callId, (part) => {
        if (part.type === 'tool') return { ...withoutApproval(part), output, state: 'done' }
        return part.type === 'agent' && { ...part, output, state: 'done' }
      })
    } else if (type.endsWith('_call')) this.#addCall(item, baseOf(callId, source))
  }

  /** What has a `call_id` is carried out by the server; all else was by the model's provider, which tells no more of it. */
  #addCall(item: Item, base: PartBase): void {
    const { type = '', name = type, call_id: callId, result, output_format: format = 'png' } = item
    if (type === 'image_generation_call' && typeof result === 'string') {
      this.#put({ ...base, type: 'file', mediaType: `image/${format as string}`, data: result })
    } else if (callId === undefined) {
      this.#put({ ...base, type: 'tool', name, input: item, state: 'done' })
    } else {
      // Arguments are JSON, unless the model made a mistake or the tool takes text.
      const input = parsed(item['arguments'] ?? item['input'] ?? item['action'])
      this.#put({ ...base, type: 'tool', name, input, state: 'running' })
    }
  }

  /** The first agent of a nested conversation is its recipient. */
  #enter({ parent_run_id: id = '', agent: recipient }: Source): void {
    const name = recipient ?? ''
    this.#change(
      id,
      ({ agent, parent, ...part }) =>
        part.type === 'tool' && { id, agent, parent, type: 'agent', name, input: part.input, state: 'running' },
    )
  }

  #reset({ new_messages: messages, partial }: Extract<StreamEvent, { type: 'reset' }>): void {
    this.#replace([])
    for (const message of inOrder(messages)) {
      this.#enter(message)
      this.#addItem(message as Item, message)
    }
    if (partial) {
      const { item_id: id, text } = partial
      this.#put({ ...baseOf(id, messages.at(-1) ?? {}), type: 'text', text, state: 'streaming' })
    }
  }

  #find(id: string): Part | undefined {
    return this.#parts[this.#at.get(id) ?? -1]
  }

  #change(id: string, changed: (part: Part) => Part | false): void {
    const part = this.#find(id)
    const next = part && changed(part)
    if (next) this.#put(next)
  }

  #replace(parts: Part[]): void {
    this.#parts = parts
    this.#at = new Map(parts.map(({ id }, at) => [id, at]))
    this.#snapshot = undefined
  }

  #put(part: Part): void {
    const at = this.#at.get(part.id) ?? this.#parts.length
    this.#at.set(part.id, at)
    this.#parts[at] = part
    this.#snapshot = undefined
  }
}

/** A message to another agent is kept when it is answered: after the conversation that came of it. Here it is before that. */
function inOrder(messages: readonly Message[]): Iterable<Message> {
  // The first with an id is the call, the second its output.
  const calls = new Map(messages.toReversed().map((message) => [message['call_id'], message]))
  const ordered = new Set<Message>()
  const add = (message: Message): void => {
    const { parent_run_id: parent = '' } = message
    const call = calls.get(parent)
    calls.delete(parent)
    if (call) add(call)
    ordered.add(message)
  }
  messages.forEach(add)
  return ordered
}

function withoutApproval(part: PartBase & ToolPart): PartBase & Omit<ToolPart, 'approval'> {
  const { approval: _, ...rest } = part
  return rest
}

function baseOf(id: string, { agent, parent_run_id: parent }: Source): PartBase {
  return { id, agent: agent ?? '', parent: parent ?? null }
}

/** The text of a message's content or of a reasoning's summary: text, or a list of parts that hold some. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part: { text?: string; refusal?: string }) => part.text ?? part.refusal ?? '').join('')
}
