import type {
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ToolApprovalResponsePart,
  LanguageModelV4ToolResultPart,
} from '@ai-sdk/provider'
import { isFields, type WireItem } from '@bureau/protocol'
import type { ResponsesRequest } from '../../agency/model-object.ts'
import { type LanguageModel, vendorOfModel } from '../../agency/language-model.ts'
import { CallOutputs, listOf, textOf } from '../wire-content.ts'
import { toToolOutput, toUserParts } from './prompt-content.ts'
import { type AssistantPart, modelKey, type ProviderData, providerDataOf, providerOptions } from './provider-data.ts'

type UserPart = Extract<LanguageModelV4Message, { role: 'user' }>['content'][number]
type ToolPart = LanguageModelV4ToolResultPart | LanguageModelV4ToolApprovalResponsePart

/**
 * The conversation of a Responses request as a prompt of the AI SDK.
 *
 * Outputs follow their calls directly, because most vendors demand it; a call without output, or the reverse, is left out.
 * Thoughts and calls that a provider has carried out go back to the model that made them, exactly as it gave them, and to
 * no other. Items of kinds that the AI SDK does not know are left out.
 */
export function toPrompt({ instructions, input }: ResponsesRequest, model: LanguageModel): LanguageModelV4Prompt {
  const prompt = new PromptMessages(input, model)
  if (instructions) prompt.addSystem(instructions)
  for (const item of input) prompt.add(item)
  return prompt.finished()
}

/** Their packages, or their APIs, refuse a system message after the conversation has begun. */
const SYSTEM_COMES_FIRST = /anthropic|bedrock|gemini|google|vertex/

/** Gathers what one side says in a row into one message, and puts the outputs of its calls behind it. */
class PromptMessages {
  readonly #messages: LanguageModelV4Message[] = []
  readonly #key: string
  readonly #systemComesFirst: boolean
  readonly #outputs: CallOutputs
  readonly #approvals = new Set<string>()
  #parts: AssistantPart[] = []
  #results: ToolPart[] = []

  constructor(input: readonly WireItem[], model: LanguageModel) {
    this.#key = modelKey(model)
    this.#systemComesFirst = SYSTEM_COMES_FIRST.test(`${vendorOfModel(model)} ${model.provider}`)
    this.#outputs = new CallOutputs(input)
  }

  add(item: WireItem): void {
    const own = providerDataOf(item, this.#key)
    switch (item.type ?? (item.role === undefined ? '' : 'message')) {
      case 'message':
        return this.#addMessage(item, own)
      case 'reasoning':
        return this.#say(thoughtsOf(item, own))
      case 'function_call':
        return this.#addCall(item, own)
      case 'function_call_output':
        return this.#endTurn()
      case 'image_generation_call':
        return this.#say(imagesOf(item, own))
      case 'mcp_approval_request':
        return void (own && this.#approvals.add(item.id ?? ''))
      case 'mcp_approval_response':
        return this.#addApproval(item)
      default:
        return this.#say(own?.parts ?? [])
    }
  }

  addSystem(content: string): void {
    this.#endTurn()
    if (content === '') return
    const isLate = this.#messages.some(({ role }) => role !== 'system')
    if (!isLate || !this.#systemComesFirst) this.#messages.push({ role: 'system', content })
    else this.#addUser([{ type: 'text', text: `[A note of the system, not of the user]\n${content}` }])
  }

  finished(): LanguageModelV4Prompt {
    this.#endTurn()
    return this.#messages
  }

  #addMessage(item: WireItem, own: ProviderData | undefined): void {
    if (item.role === 'assistant') return this.#say(textPartsOf(item, own))
    this.#endTurn()
    if (item.role === 'user') this.#addUser(toUserParts(item['content']))
    else if (item.role === 'system' || item.role === 'developer') this.addSystem(wordsOf(item))
  }

  #addUser(content: UserPart[]): void {
    if (content.length > 0) this.#messages.push({ role: 'user', content })
  }

  #addCall(item: WireItem, own: ProviderData | undefined): void {
    const toolCallId = item.call_id ?? ''
    const output = this.#outputs.take(toolCallId)
    if (!output) return
    const call = { toolCallId, toolName: textOf(item['name']) }
    const input = argumentsOf(textOf(item['arguments']))
    this.#say([{ type: 'tool-call', ...call, input, ...providerOptions(own?.metadata) }])
    this.#results.push({ type: 'tool-result', ...call, output: toToolOutput(output['output']) })
  }

  #addApproval(item: WireItem): void {
    const approvalId = textOf(item['approval_request_id'])
    if (!this.#approvals.has(approvalId)) return
    const { reason } = item
    this.#results.push({
      type: 'tool-approval-response',
      approvalId,
      approved: item['approve'] === true,
      ...(typeof reason === 'string' && { reason }),
    })
    this.#endTurn()
  }

  #say(parts: readonly AssistantPart[]): void {
    this.#parts.push(...parts)
  }

  #endTurn(): void {
    if (this.#parts.length > 0) this.#messages.push({ role: 'assistant', content: this.#parts })
    if (this.#results.length > 0) this.#messages.push({ role: 'tool', content: this.#results })
    this.#parts = []
    this.#results = []
  }
}

/** A message of the model itself goes back in the blocks in which it came. */
function textPartsOf(item: WireItem, own: ProviderData | undefined): AssistantPart[] {
  const text = wordsOf(item)
  if (text === '') return []
  const blocks = own?.blocks ?? [{ end: text.length, ...(own?.metadata && { metadata: own.metadata }) }]
  return blocks.map(({ end, metadata }, index) => {
    const start = blocks[index - 1]?.end ?? 0
    return { type: 'text', text: text.slice(start, end), ...providerOptions(metadata) }
  })
}

function wordsOf({ content }: WireItem): string {
  if (typeof content === 'string') return content
  return listOf(content)
    .map((part) => textOf(part['text'] ?? part['refusal']))
    .join('')
}

function thoughtsOf(item: WireItem, own: ProviderData | undefined): readonly AssistantPart[] {
  if (!own || own.parts) return own?.parts ?? []
  const text = listOf(item['summary'])
    .map((part) => textOf(part['text']))
    .join('\n')
  return [{ type: 'reasoning', text, ...providerOptions(own.metadata) }]
}

function imagesOf(item: WireItem, own: ProviderData | undefined): AssistantPart[] {
  if (!own) return []
  const data = textOf(item['result'])
  const mediaType = `image/${textOf(item['output_format']) || 'png'}`
  return data === ''
    ? []
    : [{ type: 'file', mediaType, data: { type: 'data', data }, ...providerOptions(own.metadata) }]
}

/** Vendors take an object only. What the model wrote in place of one is shown as it is. */
export function argumentsOf(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text === '' ? '{}' : text)
    if (isFields(value)) return value
  } catch {
    // Shown below, like JSON of another kind.
  }
  return { not_an_object: text }
}
