import { isDeepStrictEqual } from 'node:util'
import {
  type AgentInputItem,
  getDefaultModelSettings,
  type Model,
  type ModelRequest,
  type ModelResponse,
  type ModelSettings,
  Usage,
} from '#agents-core'
import { ConfigError, type WireItem } from '@bureau/protocol'
import { type Agent, storage } from './agent.ts'
import type { Conversation } from './conversation.ts'
import { finalAnswer } from './final-answer.ts'
import { withoutStoredState } from './history.ts'
import { codeFilesHint } from './hosted-tools.ts'
import { ModelCall } from './model-call.ts'
import { applyExtraArguments } from './models/extra-arguments.ts'
import { requestBody, requestHeaders } from './models/request-body.ts'
import { type ResolvedModel, resolveModel } from './models/resolve-model.ts'
import { ObservedModel } from './models/sdk-model.ts'
import type { ResponsesRequest } from './models/transport.ts'
import type { StoredFile } from './run-input.ts'
import { toSdkItems, toSdkOutputItem } from './wire-items.ts'

/** An agent's model in one conversation, and what it can do. */
export type BoundModel = {
  readonly model: Model
  /** False: a model object of the agents SDK, which may rely on what the SDK does around its requests. */
  readonly isTransport: boolean
  readonly runsHostedTools: boolean
  /** Files that its code interpreter gets. */
  readonly codeFiles: readonly StoredFile[]
}

export function boundModel(conversation: Conversation, agent: Agent): BoundModel {
  const { input, environment } = conversation.run
  const resolved = resolveModel(agent, input.clientConfig ?? {}, environment.models)
  const { kind, runsHostedTools } = resolved
  const codeFiles = codeFilesFor(conversation, resolved)
  const model =
    kind === 'transport'
      ? new TransportModel(conversation, agent, { ...resolved, codeFiles })
      : new AdaptedModel(conversation, agent, resolved)
  return { model, isTransport: kind === 'transport', runsHostedTools, codeFiles }
}

/** Files belong to the user's conversation, and to the service that has them. */
function codeFilesFor({ run, callerAgent }: Conversation, { files }: ResolvedModel): readonly StoredFile[] {
  const { codeFiles } = run.input
  const at = codeFiles?.service.endpoint
  const isThere = at?.baseUrl === files.endpoint?.baseUrl && at?.apiKey === files.endpoint?.apiKey
  return codeFiles && callerAgent === null && files.runsCode && isThere ? codeFiles.files : []
}

type ResolvedTransport = ResolvedModel & { readonly kind: 'transport' } & Pick<BoundModel, 'codeFiles'>

/**
 * A model behind one of our transports. Answers are streamed underneath and their events go to the run's log; the SDK
 * sees only finished responses, because its own streaming costs several times what a token needs (docs/performance.md).
 */
class TransportModel implements Model {
  readonly #conversation: Conversation
  readonly #agent: Agent
  readonly #resolved: ResolvedTransport

  constructor(conversation: Conversation, agent: Agent, resolved: ResolvedTransport) {
    this.#conversation = conversation
    this.#agent = agent
    this.#resolved = resolved
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    const call = new ModelCall(this.#conversation, { model: this.#resolved.name, renames: true })
    const { signal = this.#conversation.signal } = request
    await call.counted(this.#send(request, call), signal)
    const response = call.result()
    const output = finalAnswer(response.output.map(toSdkOutputItem), request)
    return { usage: new Usage(), output, responseId: response.id }
  }

  /** Keeps nothing of the body while the answer arrives: it repeats all instructions, tools and items. */
  #send(modelRequest: ModelRequest, observer: ModelCall): Promise<void> {
    const conversation = this.#conversation
    const { name, runsHostedTools, transport, codeFiles } = this.#resolved
    const request = {
      ...modelRequest,
      modelSettings: settingsFor(name, this.#agent, modelRequest.modelSettings),
      overridePromptModel: this.#agent.model !== '' || conversation.run.input.clientConfig?.model != null,
    }
    const body = requestBody(request, name, withHint(conversation.nextRequestInput(itemsOf(request)), codeFiles))
    observer.begin(promptOf(conversation, modelRequest))
    const extra = conversation.run.input.clientConfig?.model_settings_extra_args ?? {}
    const asked = applyExtraArguments(runsHostedTools ? body : withFunctionChoice(body), extra)
    // What this run has produced itself is not kept either.
    const sent = asked['store'] === false ? { ...asked, input: withoutStoredState(asked.input) } : asked
    return transport(sent, {
      observer,
      signal: request.signal ?? conversation.signal,
      headers: requestHeaders(request.modelSettings),
    }).catch(rethrow)
  }

  // oxlint-disable-next-line require-yield -- the interface wants a generator; runs never stream through the SDK
  async *getStreamedResponse(): AsyncGenerator<never> {
    throw new Error('runs do not stream through the agents SDK')
  }
}

/** All that a model is told; looked at only when the request does not come to its end. */
function promptOf(
  { items }: Conversation,
  { systemInstructions, tools }: Pick<ModelRequest, 'systemInstructions' | 'tools'>,
): () => unknown {
  const { length } = items
  return () => [systemInstructions, tools, items.slice(0, length)]
}

/** The request that a model object works on. */
type AskedModel = { request?: ModelRequest; call?: ModelCall }

/** A model object of the agents SDK; only the settings of its requests are this run's. */
class AdaptedModel extends ObservedModel {
  readonly #agent: Agent
  readonly #resolved: ResolvedModel & { readonly kind: 'sdk' }
  readonly #asked: AskedModel

  constructor(
    conversation: Conversation,
    agent: Agent,
    resolved: ResolvedModel & { kind: 'sdk' },
    asked: AskedModel = {},
  ) {
    super(resolved.model, {
      beforeRequest: (items) => {
        const input = conversation.nextRequestInput(items)
        return toSdkItems(storage(agent).store ? input : withoutStoredState(input))
      },
      name: resolved.name,
      observe: () => {
        asked.call = new ModelCall(conversation, { model: resolved.name, renames: false })
        asked.call.begin(promptOf(conversation, asked.request!))
        return asked.call
      },
    })
    this.#asked = asked
    this.#agent = agent
    this.#resolved = resolved
  }

  override async getResponse(request: ModelRequest): Promise<ModelResponse> {
    const { name, adjust } = this.#resolved
    const modelSettings = adjust(settingsFor(name, this.#agent, request.modelSettings))
    this.#asked.request = request
    const answer = super.getResponse({ ...request, modelSettings }).catch(rethrow)
    const response = await (this.#asked.call?.counted(answer, request.signal) ?? answer)
    return { ...response, output: finalAnswer(response.output, request) }
  }
}

/** What the agents SDK has set for the agent's model on its own is set anew for the model in use. */
function settingsFor(name: string, { model, modelSettings }: Agent, settings: ModelSettings): ModelSettings {
  if (typeof model !== 'string' || model === name) return settings
  if (!isDeepStrictEqual(modelSettings, getDefaultModelSettings(model || undefined))) return settings
  const { reasoning: _reasoning, text: _text, ...others } = settings
  return { ...others, ...getDefaultModelSettings(name) }
}

/** That a caller's address is forbidden may show only when its name is resolved. */
function rethrow(error: unknown): never {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 8; cause = cause.cause, depth++) {
    if (cause.name !== 'EgressError' || (cause as { reason?: unknown }).reason !== 'blocked') continue
    throw new ConfigError('client_config.base_url: The address of the URL is not allowed.', { cause: error })
  }
  throw error
}

/** A hosted tool that must be called is a function here, under the same name. */
function withFunctionChoice(body: ResponsesRequest): ResponsesRequest {
  const choice = body['tool_choice']
  if (typeof choice !== 'object' || choice === null) return body
  const { type } = choice as { type?: unknown }
  const isOffered = body.tools?.some(({ name }) => name === type)
  return isOffered ? { ...body, tool_choice: { type: 'function', name: type } } : body
}

/** Part of the request only: the files are there for this run, so later turns must not read of them. */
function withHint(input: WireItem[], files: readonly StoredFile[]): WireItem[] {
  const at = input.findLastIndex(({ role }) => role === 'user')
  const item = input[at]
  if (files.length === 0 || !item) return input
  const { content } = item
  const parts = Array.isArray(content) ? content : content ? [{ type: 'input_text', text: content }] : []
  const told = { ...item, content: [...parts, { type: 'input_text', text: codeFilesHint(files) }] }
  return input.with(at, told)
}

function itemsOf({ input }: ModelRequest): AgentInputItem[] {
  return typeof input === 'string' ? [{ role: 'user', content: input }] : input
}
