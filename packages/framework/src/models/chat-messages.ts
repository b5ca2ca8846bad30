import type { Fields, WireItem } from '@bureau/protocol'
import { CallOutputs, contentParts, listOf, type PartWriter, textOf } from './wire-content.ts'

type ChatPart = { readonly type: string; readonly [key: string]: unknown }

type ChatToolCall = {
  readonly id: string
  readonly type: 'function'
  readonly function: { readonly name: string; readonly arguments: string }
}

type ChatMessage = {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly content: string | ChatPart[] | null
  tool_calls?: ChatToolCall[]
  readonly tool_call_id?: string
}

/**
 * The conversation of a Responses request as Chat Completions messages.
 *
 * Outputs follow their calls directly, as that API demands; a call without output, or the reverse, is left out.
 * Reasoning, calls of hosted tools and items of kinds that the API does not know are left out too.
 */
export function toChatMessages(instructions: string | undefined, input: readonly WireItem[]): ChatMessage[] {
  const messages = new ChatMessageList(input)
  if (instructions) messages.add({ role: 'system', content: instructions })
  for (const item of input) {
    if (item.type === 'message' || (item.type === undefined && item.role !== undefined)) messages.add(toMessage(item))
    else if (item.type === 'function_call') messages.addCall(item)
    else if (item.type !== 'reasoning') messages.endCalls()
  }
  return messages.finished()
}

/** Gathers the calls of one turn into one assistant message and puts their outputs behind it. */
class ChatMessageList {
  readonly #messages: ChatMessage[] = []
  readonly #outputs: CallOutputs
  #calls: { readonly call: ChatToolCall; readonly output: WireItem }[] = []

  constructor(input: readonly WireItem[]) {
    this.#outputs = new CallOutputs(input)
  }

  add(message: ChatMessage | undefined): void {
    this.endCalls()
    if (message) this.#messages.push(message)
  }

  addCall(item: WireItem): void {
    const id = item.call_id ?? ''
    const output = this.#outputs.take(id)
    if (!output) return
    const call = { name: textOf(item['name']), arguments: textOf(item['arguments']) || '{}' }
    this.#calls.push({ call: { id, type: 'function', function: call }, output })
  }

  endCalls(): void {
    const calls = this.#calls
    if (calls.length === 0) return
    this.#calls = []
    const last = this.#messages.at(-1)
    const toolCalls = calls.map(({ call }) => call)
    if (last?.role === 'assistant' && !last.tool_calls) last.tool_calls = toolCalls
    else this.#messages.push({ role: 'assistant', content: null, tool_calls: toolCalls })

    const shown: ChatPart[] = []
    for (const { call, output } of calls) {
      const { text, media } = readOutput(output['output'])
      this.#messages.push({ role: 'tool', tool_call_id: call.id, content: text })
      if (media.length > 0) shown.push(textPart(`Files returned by ${call.function.name} (${call.id}):`), ...media)
    }
    // A tool message can hold text only, so images and files of tools are shown by the user's side.
    if (shown.length > 0) this.#messages.push({ role: 'user', content: shown })
  }

  finished(): ChatMessage[] {
    this.endCalls()
    return this.#messages
  }
}

function toMessage(item: WireItem): ChatMessage | undefined {
  const content = item['content']
  if (item.role === 'user') return { role: 'user', content: userContent(content) }
  const text = typeof content === 'string' ? content : listOf(content).map(spokenText).join('')
  if (item.role === 'assistant') return text === '' ? undefined : { role: 'assistant', content: text }
  if (item.role === 'system' || item.role === 'developer') return { role: 'system', content: text }
  return undefined
}

/** One string when there is only text, because many compatible servers take nothing else. */
function userContent(content: unknown): string | ChatPart[] {
  if (typeof content === 'string') return content
  const parts = contentParts(content, PARTS)
  return parts.every((part) => part.type === 'text') ? parts.map((part) => textOf(part['text'])).join('\n') : parts
}

function readOutput(output: unknown): { text: string; media: ChatPart[] } {
  if (typeof output === 'string') return { text: output, media: [] }
  if (!Array.isArray(output)) return { text: JSON.stringify(output ?? null), media: [] }
  const parts = contentParts(output, PARTS)
  const texts = parts.filter((part) => part.type === 'text').map((part) => textOf(part['text']))
  return { text: texts.join('\n'), media: parts.filter((part) => part.type !== 'text') }
}

const PARTS: PartWriter<ChatPart> = {
  text: textPart,
  image: imagePart,
  file: filePart,
  audio: (audio) => [{ type: 'input_audio', input_audio: audio }],
}

function imagePart({ image_url: url, detail }: Fields): ChatPart {
  if (typeof url !== 'string') return textPart('[An image is not shown: this model cannot open stored files.]')
  return { type: 'image_url', image_url: typeof detail === 'string' ? { url, detail } : { url } }
}

/** Chat Completions takes a file's content or, at the vendor itself, its id; never an address. */
function filePart({ file_data: data, file_id: id, file_url: url, filename }: Fields): ChatPart {
  const name = typeof filename === 'string' ? { filename } : {}
  if (typeof data === 'string') return { type: 'file', file: { ...name, file_data: data } }
  if (typeof id === 'string') return { type: 'file', file: { file_id: id } }
  return textPart(`[The file ${textOf(filename) || textOf(url)} is not shown: this model cannot open addresses.]`)
}

function spokenText(part: Fields): string {
  return textOf(part['type'] === 'refusal' ? part['refusal'] : part['text'])
}

function textPart(text: string): ChatPart {
  return { type: 'text', text }
}
