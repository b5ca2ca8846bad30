import {
  type AgentInputItem,
  type Model,
  type ModelRequest,
  type ModelResponse,
  type ModelRetryAdvice,
  type ModelRetryAdviceRequest,
  type StreamEvent,
  Usage,
} from '#agents-core'
import { toModelError } from './model-failure.ts'
import { ObservedAnswer } from './observed-answer.ts'
import { untilAborted } from './retries.ts'
import { ModelError, type ModelCallObserver } from './transport.ts'

export type ObservedModelOptions = {
  /** Called with the input of each request before it is sent. What it returns, if anything, is sent instead. */
  readonly beforeRequest?: (input: readonly AgentInputItem[]) => readonly AgentInputItem[] | undefined
  /** Gives each request an observer of its own. */
  readonly observe: () => ModelCallObserver
  /** The model's name for the events, where they do not come from the model itself. */
  readonly name?: string
}

/**
 * A model object of the agents SDK whose answers are watched as Responses events while they are streamed.
 *
 * The agents SDK gets the finished answer. The model object itself is only called, never changed or replaced, so a
 * custom class keeps its class. A model that cannot stream is asked for the whole answer at once.
 */
export class ObservedModel implements Model {
  readonly #model: Model
  readonly #options: ObservedModelOptions

  constructor(model: Model, options: ObservedModelOptions) {
    this.#model = model
    this.#options = options
  }

  get supportsPromptModelSelection(): boolean {
    return this.#model.supportsPromptModelSelection === true
  }

  /** @throws ModelError for failures of the provider, the reason of the signal, or what the model object throws. */
  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    const prepared = this.#prepare(request)
    const { observe, name } = this.#options
    const answer = new ObservedAnswer({ observer: observe(), modelName: name, usedIds: idsOf(prepared.input) })
    try {
      return await untilAborted(this.#ask(prepared, answer), request.signal)
    } catch (error) {
      request.signal?.throwIfAborted()
      throw toModelError(error)
    }
  }

  /** For a caller that streams all the same: the finished answer as one event. */
  async *getStreamedResponse(request: ModelRequest): AsyncIterable<StreamEvent> {
    yield { type: 'response_started' }
    const { usage, output, responseId = '', providerData } = await this.getResponse(request)
    const { requests, inputTokens, outputTokens, totalTokens, inputTokensDetails, outputTokensDetails } = usage
    const counts = { requests, inputTokens, outputTokens, totalTokens, inputTokensDetails, outputTokensDetails }
    yield {
      type: 'response_done',
      response: { id: responseId, usage: counts, output, ...(providerData && { providerData }) },
    } as StreamEvent
  }

  getRetryAdvice(args: ModelRetryAdviceRequest): Promise<ModelRetryAdvice | undefined> | ModelRetryAdvice | undefined {
    const error = args.error instanceof ModelError ? (args.error.cause ?? args.error) : args.error
    return this.#model.getRetryAdvice?.({ ...args, error })
  }

  #prepare(request: ModelRequest): ModelRequest {
    const input: AgentInputItem[] =
      typeof request.input === 'string' ? [{ role: 'user', content: request.input }] : request.input
    const replaced = this.#options.beforeRequest?.(input)
    return replaced ? { ...request, input: [...replaced] } : request
  }

  async #ask(request: ModelRequest, answer: ObservedAnswer): Promise<ModelResponse> {
    let events = 0
    let done: ModelResponse | undefined
    try {
      for await (const event of streamOf(this.#model, request)) {
        request.signal?.throwIfAborted()
        events += 1
        if (event.type === 'response_done') done = toModelResponse(event)
        await answer.take(event)
      }
    } catch (error) {
      if (events > 0 || !saysItCannotStream(error)) return answer.recover(error)
    }
    if (events === 0) done = await this.#model.getResponse(request)
    return answer.finish(done)
  }
}

function streamOf(model: Model, request: ModelRequest): AsyncIterable<StreamEvent> | [] {
  return typeof model.getStreamedResponse === 'function' ? model.getStreamedResponse(request) : []
}

/** The interface demands the method, so models that cannot stream throw from it. */
function saysItCannotStream(error: unknown): boolean {
  return error instanceof Error && CANNOT_STREAM.test(error.message)
}

const CANNOT_STREAM = /not (yet )?(implemented|supported)|(does not|doesn't|cannot|can't) (support )?stream/i

function toModelResponse({ response }: StreamEvent & { type: 'response_done' }): ModelResponse {
  const { id, usage, output, ...rest } = response
  return { ...rest, usage: new Usage(usage as UsageInput), output, responseId: id } as ModelResponse
}

type UsageInput = ConstructorParameters<typeof Usage>[0]

function idsOf(input: ModelRequest['input']): Set<string> {
  const ids = new Set<string>()
  if (typeof input === 'string') return ids
  for (const item of input) {
    if (typeof item.id === 'string') ids.add(item.id)
    if ('callId' in item && typeof item.callId === 'string') ids.add(item.callId)
  }
  return ids
}
