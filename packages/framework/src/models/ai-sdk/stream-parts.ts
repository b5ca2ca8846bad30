import type { LanguageModelV4StreamPart, LanguageModelV4Usage } from '@ai-sdk/provider'
import { CallIds, countOf, isJson, responseUsage } from '../answer-values.ts'
import { toModelError } from '../model-failure.ts'
import type { IncompleteReason, ResponseEventWriter, ResponseUsage } from '../response-events.ts'
import type { FunctionCallEvents, ReasoningEvents } from '../response-items.ts'
import { invalidAnswer, ModelError } from '../model-error.ts'
import { HostedCalls } from './hosted-calls.ts'
import { mergeMetadata, type Metadata, type ProviderData } from './provider-data.ts'
import { TextBlocks } from './text-blocks.ts'

type Part = LanguageModelV4StreamPart
type PartOf<Type extends Part['type']> = Extract<Part, { type: Type }>

type Thought = { events: ReasoningEvents | undefined; metadata: Metadata | undefined }
type Call = { readonly events: FunctionCallEvents; readonly isText: boolean }

/** Reads the parts of one streamed answer of an AI SDK model and writes them as Responses events. */
export class StreamParts {
  readonly #writer: ResponseEventWriter
  readonly #model: string
  readonly #callIds: CallIds
  readonly #text: TextBlocks
  readonly #hosted: HostedCalls
  readonly #thoughts = new Map<string, Thought>()
  /** Calls whose arguments are not complete, by the ids of the provider. */
  readonly #calls = new Map<string, Call>()
  #failure: ModelError | undefined
  #finish: PartOf<'finish'> | undefined

  /** `usedCallIds`: the calls of the conversation so far. */
  constructor(writer: ResponseEventWriter, model: string, usedCallIds: Iterable<string>) {
    this.#writer = writer
    this.#model = model
    this.#callIds = new CallIds(usedCallIds)
    this.#text = new TextBlocks(writer, model)
    this.#hosted = new HostedCalls(writer, model)
  }

  read(part: Part): void {
    switch (part.type) {
      case 'text-start':
      case 'text-delta':
      case 'text-end':
        return this.#text.read(part)
      case 'reasoning-start':
      case 'reasoning-delta':
      case 'reasoning-end':
        return this.#readThought(part)
      case 'tool-input-start':
      case 'tool-input-delta':
      case 'tool-call':
        return this.#readCall(part)
      default:
        return this.#readOther(part)
    }
  }

  /**
   * The stream has ended: writes the last event.
   *
   * @throws ModelError the provider has reported a failure, or the answer is not whole.
   */
  end(): void {
    const finish = this.#finish
    if (!finish) throw this.#failure ?? invalidAnswer('the stream ended too early')
    const usage = toUsage(finish.usage)
    const cutOff = CUT_OFF[finish.finishReason.unified]
    const failure = this.#failure ?? failureOfFinish(finish) ?? (cutOff ? undefined : this.#failureOfCalls())
    if (failure) {
      // Its tokens are paid for all the same.
      this.#writer.fail({ code: failure.code, message: failure.message }, usage)
      throw failure
    }
    for (const thought of this.#thoughts.values()) this.#endThought(thought)
    this.#hosted.end()
    this.#text.end(cutOff ? 'incomplete' : 'completed')
    if (cutOff) return this.#writer.incomplete(cutOff, usage)
    for (const { events } of this.#calls.values()) events.done()
    if (this.#writer.speechless) this.#writer.text('')
    this.#writer.complete(usage)
  }

  /** A block without text counts when it carries something for the provider, such as a signature. */
  #readThought(part: PartOf<'reasoning-start' | 'reasoning-delta' | 'reasoning-end'>): void {
    const thought = this.#thoughts.get(part.id) ?? { events: undefined, metadata: undefined }
    this.#thoughts.set(part.id, thought)
    thought.metadata = mergeMetadata(thought.metadata, part.providerMetadata)
    const delta = part.type === 'reasoning-delta' ? part.delta : ''
    if (delta !== '' || thought.metadata) {
      if (!thought.events) this.#text.interrupt()
      thought.events ??= this.#writer.openReasoning()
      if (delta !== '') thought.events.summary(delta)
    }
    if (part.type !== 'reasoning-end') return
    this.#endThought(thought)
    this.#thoughts.delete(part.id)
  }

  #endThought({ events, metadata }: Thought): void {
    events?.done({ fields: { provider: this.#providerData(metadata) } })
  }

  /** A tool that the provider runs itself is announced with its call. */
  #readCall(part: PartOf<'tool-input-start' | 'tool-input-delta' | 'tool-call'>): void {
    if (part.type === 'tool-input-delta') this.#readArguments(part)
    else if (part.type === 'tool-input-start') return part.providerExecuted ? undefined : this.#openCall(part)
    else if (part.providerExecuted) this.#readHosted(part)
    else this.#endCall(part)
  }

  #readOther(
    part: Exclude<Part, { type: `text-${string}` | `reasoning-${'start' | 'delta' | 'end'}` | 'tool-call' }>,
  ): void {
    switch (part.type) {
      case 'tool-result':
      case 'tool-approval-request':
      case 'file':
      case 'reasoning-file':
      case 'custom':
        return this.#readHosted(part)
      case 'source':
        return this.#text.cite(part)
      case 'error':
        this.#failure ??= failureOf(part.error)
        return
      case 'finish':
        this.#finish = part
        return
      default:
        // Warnings, names of the answer, raw chunks, pings, and what later versions may add.
        return this.#writer.start()
    }
  }

  #openCall({ id, toolName, inputEncoding }: PartOf<'tool-input-start'>): void {
    this.#calls.set(id, { events: this.#newCall(id, toolName), isText: inputEncoding === 'text' })
  }

  /** Pieces of a plain text are not pieces of the JSON that the call has in the end. */
  #readArguments({ id, delta }: PartOf<'tool-input-delta'>): void {
    const call = this.#calls.get(id)
    if (call && !call.isText) call.events.arguments(delta)
  }

  /** The finished call counts: it may come alone, or differ from what was streamed of it. */
  #endCall({ toolCallId, toolName, input, providerMetadata }: PartOf<'tool-call'>): void {
    const events = this.#calls.get(toolCallId)?.events ?? this.#newCall(toolCallId, toolName)
    this.#calls.delete(toolCallId)
    const args = input === '' ? '{}' : input
    if (args.startsWith(events.streamed)) events.arguments(args.slice(events.streamed.length))
    const fields = { arguments: args, ...(providerMetadata && { provider: this.#providerData(providerMetadata) }) }
    events.done({ status: isJson(args) ? 'completed' : 'incomplete', fields })
  }

  #newCall(toolCallId: string, name: string): FunctionCallEvents {
    this.#text.interrupt()
    return this.#writer.openFunctionCall({ name, ...this.#callIds.take(toolCallId) })
  }

  #readHosted(
    part: PartOf<'tool-call' | 'tool-result' | 'tool-approval-request' | 'file' | 'reasoning-file' | 'custom'>,
  ): void {
    this.#text.interrupt()
    this.#hosted.read(part)
  }

  /** A call that never ended is one whose arguments happen to be complete, or a broken answer. */
  #failureOfCalls(): ModelError | undefined {
    const isWhole = [...this.#calls.values()].every(({ events }) => isJson(events.streamed))
    return isWhole ? undefined : invalidAnswer('a tool call was not finished')
  }

  #providerData(metadata: Metadata | undefined): ProviderData {
    return { model: this.#model, ...(metadata && { metadata }) }
  }
}

const CUT_OFF: Readonly<Record<string, IncompleteReason>> = {
  length: 'max_output_tokens',
  'content-filter': 'content_filter',
}

/** An answer that breaks off ends with a reason of the AI SDK's own, and would pass for a whole one. */
function failureOfFinish({ finishReason: { unified, raw } }: PartOf<'finish'>): ModelError | undefined {
  const isBroken = unified === 'interrupted' || unified === 'error' || (unified === 'other' && raw === undefined)
  return isBroken ? invalidAnswer(`the answer ended with the reason "${unified}"`) : undefined
}

/** Providers report failures inside the stream in any shape. */
function failureOf(error: unknown): ModelError {
  const known = toModelError(error)
  if (known instanceof ModelError) return known
  const message = error instanceof Error ? error.message : (JSON.stringify(error) ?? 'no reason')
  return invalidAnswer(message, error instanceof Error ? error : undefined)
}

/** Numbers that are missing are the sum of their parts, as far as these are known. */
function toUsage({ inputTokens, outputTokens }: LanguageModelV4Usage): ResponseUsage {
  const cached = countOf(inputTokens.cacheRead)
  const written = countOf(inputTokens.cacheWrite)
  const reasoning = countOf(outputTokens.reasoning)
  const input = countOf(inputTokens.total) || countOf(inputTokens.noCache) + cached + written
  const output = countOf(outputTokens.total) || countOf(outputTokens.text) + reasoning
  return responseUsage({ input, cached, written, output, reasoning })
}
