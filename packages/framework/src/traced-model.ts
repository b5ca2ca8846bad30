import type { Model, ModelRequest, ModelResponse, ModelRetryAdvice, ModelRetryAdviceRequest } from '#agents-core'
import type { Agent } from './agency/agent.ts'
import type { Conversation } from './loop/conversation.ts'
import { toWireItem } from './wire-items.ts'

/** The agent's model, each of its requests a step of the run's trace. The model itself when nobody watches the run. */
export function tracedModel(conversation: Conversation, agent: Agent, model: Model): Model {
  return conversation.trace ? new TracedModel(conversation, requestedModel(conversation, agent), model) : model
}

/** The name that the request asks for; the answer may come from a model with another one. */
function requestedModel({ run }: Conversation, agent: Agent): string {
  const wanted = run.input.clientConfig?.model
  if (typeof agent.model === 'string') return wanted ?? (agent.model || run.environment.models.defaultModel)
  return wanted ?? agent.model.constructor.name
}

class TracedModel implements Model {
  readonly #conversation: Conversation
  readonly #name: string
  readonly #model: Model

  constructor(conversation: Conversation, name: string, model: Model) {
    this.#conversation = conversation
    this.#name = name
    this.#model = model
  }

  get supportsPromptModelSelection(): boolean {
    return this.#model.supportsPromptModelSelection === true
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    const { source, trace } = this.#conversation
    const step = trace?.modelAsked(source, this.#name, () => inputOf(this.#conversation, request))
    try {
      const response = await this.#model.getResponse(request)
      step?.answered(() => response.output.map(toWireItem))
      return response
    } catch (error) {
      step?.failed(error)
      throw error
    }
  }

  getStreamedResponse(request: ModelRequest): ReturnType<Model['getStreamedResponse']> {
    return this.#model.getStreamedResponse(request)
  }

  getRetryAdvice(args: ModelRetryAdviceRequest): Promise<ModelRetryAdvice | undefined> | ModelRetryAdvice | undefined {
    return this.#model.getRetryAdvice?.(args)
  }
}

function inputOf(conversation: Conversation, request: ModelRequest): { instructions: string; input: unknown } {
  const { systemInstructions, input } = request
  const items = typeof input === 'string' ? [{ role: 'user', content: input }] : conversation.requestInput(input)
  return { instructions: systemInstructions ?? '', input: items }
}
