import type {
  Model,
  ModelRequest,
  ModelResponse,
  ModelRetryAdvice,
  ModelRetryAdviceRequest,
  StreamEvent,
} from '#agents-core'
import { ConfigError } from '@bureau/protocol'
import type { Dispatcher } from 'undici'
import { finishReasonOf } from './ai-sdk-part.ts'
import { toModelError } from './model-failure.ts'
import { providerFetch } from './provider-fetch.ts'
import { getProvider, loadOptional, type Provider } from './third-party-providers.ts'
import { toThirdPartyRequest } from './third-party-request.ts'
import { ModelError } from './transport.ts'

export type ThirdPartyOptions = {
  readonly apiKey?: string
  readonly baseUrl?: string
  readonly headers: Readonly<Record<string, string>>
  /** Reads a setting of the operator, such as `ANTHROPIC_API_KEY`. Not asked for a key when `baseUrl` is given. */
  readonly readKey: (name: string) => string | undefined
  readonly dispatcher: Dispatcher
}

/**
 * A model of another vendor, through the AI SDK: `<provider>/<model>`, with or without `thirdparty/` before it.
 *
 * The packages are optional and loaded with the first request. A key of the operator is never sent to an address that
 * somebody else chose.
 *
 * @throws ConfigError unknown provider, or no address for `openai_compatible`.
 * @throws ModelError `upstream_auth_failed` when there is no key.
 */
export function thirdPartyModel(name: string, options: ThirdPartyOptions): Model {
  const [providerName = '', ...rest] = name.replace(/^(?:thirdparty|litellm)\//, '').split('/')
  const provider = getProvider(providerName)
  const model = rest.join('/')
  if (model === '') throw new ConfigError(`"${name}" names no model. Write ${provider.name}/<model>.`)
  const settings = {
    baseURL: addressOf(provider, options).replace(/\/+$/, ''),
    apiKey: keyOf(provider, options),
    headers: { ...options.headers },
    fetch: providerFetch(options.dispatcher),
  }
  return new ThirdPartyModel(model, async () => {
    const packages = ['@openai/agents', '@openai/agents-extensions', 'ai', provider.packageName]
    const vendorModel = await loadOptional(packages, () => provider.open(settings, model))
    const { aisdk } = await loadOptional(packages, () => import('@openai/agents-extensions/ai-sdk'))
    return { model: aisdk(vendorModel) as Model, id: `${vendorModel.provider}:${vendorModel.modelId}` }
  })
}

function addressOf(provider: Provider, { baseUrl, readKey }: ThirdPartyOptions): string {
  const address = baseUrl ?? readKey(provider.baseUrlName) ?? provider.baseUrl
  if (address === undefined) {
    throw new ConfigError(
      `The provider ${provider.name} has no address: give a base_url, or set ${provider.baseUrlName}.`,
    )
  }
  return address
}

function keyOf(provider: Provider, { apiKey, baseUrl, readKey }: ThirdPartyOptions): string | undefined {
  const operators = baseUrl === undefined ? provider.keyNames.map(readKey).find((key) => key !== undefined) : undefined
  const key = apiKey ?? operators
  if (key !== undefined || provider.keyless) return key
  throw new ModelError('upstream_auth_failed', {
    detail: `no API key for ${provider.name}: set ${provider.keyNames[0]}, or send thirdparty_keys.${provider.name}`,
  })
}

type OpenModel = { readonly model: Model; readonly id: string }

/** Makes an AI SDK model fit for conversations that other models have worked on, and its failures ModelErrors. */
class ThirdPartyModel implements Model {
  readonly model: string
  readonly #load: () => Promise<OpenModel>
  #opening: Promise<OpenModel> | undefined

  constructor(model: string, load: () => Promise<OpenModel>) {
    this.model = model
    this.#load = load
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    const { model, id } = await this.#open()
    try {
      return await model.getResponse(toThirdPartyRequest(request, id))
    } catch (error) {
      throw failureOf(error, request)
    }
  }

  async *getStreamedResponse(request: ModelRequest): AsyncIterable<StreamEvent> {
    const { model, id } = await this.#open()
    try {
      for await (const event of model.getStreamedResponse(toThirdPartyRequest(request, id))) {
        if (event.type === 'model') requireWholeAnswer(event.event)
        yield event
      }
    } catch (error) {
      throw failureOf(error, request)
    }
  }

  /** Failed requests have been tried again already, where that helps. */
  getRetryAdvice(_args: ModelRetryAdviceRequest): ModelRetryAdvice {
    return { suggested: false }
  }

  #open(): Promise<OpenModel> {
    this.#opening ??= this.#load().catch((error: unknown) => {
      this.#opening = undefined
      throw error
    })
    return this.#opening
  }
}

/** An answer that breaks off ends with a reason of the AI SDK's own, and would pass for a whole one. */
function requireWholeAnswer(part: unknown): void {
  if (typeof part !== 'object' || part === null || !('type' in part) || part.type !== 'finish') return
  const { finishReason: reason } = part as { finishReason?: unknown }
  const unified = finishReasonOf(reason)
  const raw = typeof reason === 'object' && reason !== null && 'raw' in reason ? reason.raw : undefined
  if (unified === 'interrupted' || unified === 'error' || (unified === 'other' && raw === undefined)) {
    throw new ModelError('upstream_invalid_response', { detail: `the answer ended with the reason "${unified}"` })
  }
}

function failureOf(error: unknown, { signal }: ModelRequest): unknown {
  return signal?.aborted ? signal.reason : toModelError(error)
}
