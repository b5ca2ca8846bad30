import type { LanguageModelV4StreamPart } from '@ai-sdk/provider'
import { fieldsOf, type WireItem } from '@bureau/protocol'
import type { ResponseEventWriter } from '../response-events.ts'
import type { WholeItemEvents } from '../response-items.ts'
import { argumentsOf } from './prompt.ts'
import { type AssistantPart, type ProviderData, providerOptions } from './provider-data.ts'

type PartOf<Type extends LanguageModelV4StreamPart['type']> = Extract<LanguageModelV4StreamPart, { type: Type }>
type HostedPart = PartOf<'tool-call' | 'tool-result' | 'tool-approval-request' | 'file' | 'reasoning-file' | 'custom'>
type OpenCall = { readonly events: WholeItemEvents; readonly call: PartOf<'tool-call'> }

/**
 * What a provider does and makes beside words and calls of ours: tools that it runs itself, pictures, content of its own.
 *
 * Searches become `web_search_call`, other tools `mcp_call`, pictures `image_generation_call`. What the Responses API has
 * no item for travels in a reasoning item without words, which no other model gets to see.
 */
export class HostedCalls {
  readonly #writer: ResponseEventWriter
  readonly #model: string
  readonly #calls = new Map<string, OpenCall>()

  constructor(writer: ResponseEventWriter, model: string) {
    this.#writer = writer
    this.#model = model
  }

  read(part: HostedPart): void {
    switch (part.type) {
      case 'tool-call':
        this.#calls.set(part.toolCallId, { events: this.#writer.openItem(this.#itemOf(part)), call: part })
        return
      case 'tool-result':
        return part.preliminary ? undefined : this.#readResult(part)
      case 'tool-approval-request':
        return this.#readApprovalRequest(part)
      case 'file':
        return this.#readFile(part)
      case 'reasoning-file':
        return this.#carry({ ...part, ...providerOptions(part.providerMetadata), data: inText(part.data) })
      case 'custom':
        if (part.kind === 'anthropic.message_start') return this.#writer.start()
        return this.#carry({ type: 'custom', kind: part.kind, ...providerOptions(part.providerMetadata) })
    }
  }

  /** Some results come only with a later answer. */
  end(): void {
    for (const { events, call } of this.#calls.values()) {
      events.done({ fields: { status: 'completed', provider: this.#provider([callPart(call)]) } })
    }
  }

  #readResult(part: PartOf<'tool-result'>): void {
    const open = this.#calls.get(part.toolCallId)
    this.#calls.delete(part.toolCallId)
    if (!open) return this.#carry(resultPart(part))
    const provider = this.#provider([callPart(open.call), resultPart(part)])
    const text = typeof part.result === 'string' ? part.result : JSON.stringify(part.result)
    const outcome = isSearch(part.toolName) ? {} : part.isError ? { error: text } : { output: text }
    const status = part.isError ? 'failed' : 'completed'
    open.events.done({ fields: { status, ...outcome, provider } })
  }

  #readApprovalRequest({ approvalId, toolCallId }: PartOf<'tool-approval-request'>): void {
    const open = this.#calls.get(toolCallId)
    if (!open) return
    const { toolName: name, input } = open.call
    const asked = { server_label: this.#vendor, name, arguments: input, provider: this.#provider([]) }
    this.#writer.item({ type: 'mcp_approval_request', id: approvalId, ...asked })
  }

  #readFile({ mediaType, data, providerMetadata: metadata }: PartOf<'file'>): void {
    const file = inText(data)
    if (!mediaType.startsWith('image/') || file.type !== 'data') {
      return this.#carry({ type: 'file', mediaType, data: file, ...providerOptions(metadata) })
    }
    this.#writer.item({
      type: 'image_generation_call',
      status: 'completed',
      result: file.data,
      output_format: mediaType.slice('image/'.length),
      provider: { model: this.#model, ...(metadata && { metadata }) },
    })
  }

  #carry(part: AssistantPart): void {
    this.#writer.item({ type: 'reasoning', summary: [], provider: this.#provider([part]) })
  }

  #itemOf({ toolName, input }: PartOf<'tool-call'>): WireItem {
    if (isSearch(toolName)) {
      const { query } = fieldsOf(argumentsOf(input))
      const action = { type: 'search', query: typeof query === 'string' ? query : '' }
      return { type: 'web_search_call', status: 'in_progress', action }
    }
    const call = { server_label: this.#vendor, name: toolName, arguments: input, output: null, error: null }
    return { type: 'mcp_call', status: 'in_progress', ...call }
  }

  #provider(parts: readonly AssistantPart[]): ProviderData {
    return { model: this.#model, parts }
  }

  get #vendor(): string {
    return this.#model.split(/[.:]/)[0] ?? ''
  }
}

function isSearch(toolName: string): boolean {
  return /^(?:web|google|x)_search/.test(toolName)
}

function callPart({ toolCallId, toolName, input, providerMetadata }: PartOf<'tool-call'>): AssistantPart {
  const call = { toolCallId, toolName, input: argumentsOf(input), providerExecuted: true }
  return { type: 'tool-call', ...call, ...providerOptions(providerMetadata) }
}

function resultPart({ toolCallId, toolName, result, isError, providerMetadata }: PartOf<'tool-result'>): AssistantPart {
  const plain = typeof result === 'string' ? ({ type: 'text', value: result } as const) : undefined
  const output = isError
    ? ({ type: 'error-json', value: result } as const)
    : (plain ?? ({ type: 'json', value: result } as const))
  return { type: 'tool-result', toolCallId, toolName, output, ...providerOptions(providerMetadata) }
}

type FileData = PartOf<'file'>['data']

/** Bytes and addresses as JSON has them. */
function inText(
  data: FileData,
): (Exclude<FileData, { type: 'url' }> & { data: string }) | Extract<FileData, { type: 'url' }> {
  if (data.type === 'url') return data
  return { type: 'data', data: typeof data.data === 'string' ? data.data : Buffer.from(data.data).toString('base64') }
}
