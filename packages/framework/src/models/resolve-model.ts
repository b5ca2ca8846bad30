import type { Model, ModelSettings } from '#agents-core'
import { ConfigError } from '@bureau/protocol'
import type { Dispatcher } from 'undici'
import { chatCompletionsTransport } from './chat-completions.ts'
import type { ClientConfig } from './client-config.ts'
import { demoTransport } from './demo.ts'
import { extraBodySettings, extraHeaders } from './extra-arguments.ts'
import { type ModelEndpoint, responsesTransport } from './responses.ts'
import { learnName, readStockModel, type StockModel } from './stock-model.ts'
import { thirdPartySettings } from './third-party-settings.ts'
import { thirdPartyModel } from './third-party.ts'
import { ModelError, type ResponsesTransport } from './transport.ts'

/** Which wire protocol the default provider speaks. */
export type ModelApi = 'responses' | 'chat_completions'

/** The providers a process may use, with the operator's keys. */
export type ModelAccess = {
  readonly api: ModelApi
  /** Base URL of the default provider, with the version segment. */
  readonly baseUrl: string
  readonly apiKey: string | undefined
  /** Headers of every request to the default provider; names in lower case. */
  readonly headers?: Readonly<Record<string, string>>
  /** Used by agents that name no model. `demo` is the built-in offline model. */
  readonly defaultModel: string
  /** Reads a key of another provider, e.g. `ANTHROPIC_API_KEY`. */
  readonly readKey: (name: string) => string | undefined
  /** For the operator's own providers. */
  readonly dispatcher: Dispatcher
  /** For addresses that callers name: connects to public addresses only, unless the operator allows more. */
  readonly callerDispatcher: Dispatcher
  /** @throws when a caller may not name this address; the message is fit for the caller. */
  readonly checkCallerUrl: (url: string) => void
}

/** What can be done with files for an agent's model, and where. */
export type FileService = {
  /** Where files are stored; undefined when no provider with a file service is set up. */
  readonly endpoint: ModelEndpoint | undefined
  /** True: messages may refer to stored files by id. False: they must carry the contents. */
  readonly readsStoredFiles: boolean
  /** True: stored files can be given to a code interpreter. */
  readonly runsCode: boolean
}

/** A model for one conversation: a transport of ours, or a model object of the agents SDK. */
export type ResolvedModel = {
  readonly name: string
  /** False: tools that only the default vendor can run are replaced. */
  readonly runsHostedTools: boolean
  readonly files: FileService
} & (
  | { readonly kind: 'transport'; readonly transport: ResponsesTransport }
  | {
      readonly kind: 'sdk'
      readonly model: Model
      /** The settings of a request as this run wants them. */
      readonly adjust: (settings: ModelSettings) => ModelSettings
    }
)

export const DEMO_MODEL = 'demo'

/** Model of agents that name none, when a provider is configured and nobody says otherwise. */
export const DEFAULT_MODEL = 'gpt-5-mini'

type HasModel = { readonly name: string; readonly model: string | Model }

/**
 * Chooses an agent's model for one request: the agent's own, or what `client_config` makes of it.
 *
 * The override is for models of the default vendor and for `thirdparty/...`. Custom model objects are never replaced or
 * changed, and names of other vendors stay where the operator has them, unless the request itself names the model.
 * The operator's keys and headers never go to an address that the caller named.
 *
 * @throws ConfigError `client_config.base_url` is not allowed or missing, or the provider is not known.
 * @throws ModelError `upstream_auth_failed` when there is no key.
 */
export function resolveModel({ model }: HasModel, config: ClientConfig, access: ModelAccess): ResolvedModel {
  if (typeof model === 'string') return resolveName(model || access.defaultModel, config, access)
  const stock = readStockModel(model)
  return stock ? resolveStock(model, stock, { config, access }) : resolveObject(model, config, access)
}

function resolveName(own: string, config: ClientConfig, access: ModelAccess): ResolvedModel {
  const name = chosenName(config) ?? own
  const thirdPartyName = THIRD_PARTY.exec(name)?.[1]
  if (thirdPartyName?.startsWith('openai/')) {
    const apiKey = config.thirdparty_keys?.['openai'] ?? config.api_key ?? null
    return openAiModel(thirdPartyName.slice('openai/'.length), { ...config, api_key: apiKey }, access)
  }
  if (thirdPartyName !== undefined) return thirdParty(thirdPartyName, config, access)
  if (name === DEMO_MODEL) {
    const files = { endpoint: findEndpoint(config, access), readsStoredFiles: false, runsCode: false }
    return { kind: 'transport', name, transport: demoTransport, runsHostedTools: false, files }
  }
  if (config.model == null && isOfOtherVendor(name)) {
    const { model_settings_extra_args: settings = null } = config
    return openAiModel(name, { model_settings_extra_args: settings }, access)
  }
  // A gateway that the caller names knows its models by their full names.
  const isForGateway = config.model != null && config.base_url != null
  return openAiModel(isForGateway ? name : name.replace(/^openai\//, ''), config, access)
}

/** A model of another vendor, `<provider>/<model>` behind the prefix. */
export const THIRD_PARTY = /^(?:thirdparty|litellm)\/(.+)$/
/** Servers of the caller's own, by the names that LiteLLM has for them; they speak as the default vendor does. */
const OWN_SERVER = /^(?:thirdparty|litellm)\/(?:ollama|ollama_chat|lm_studio)\/(.+)$/

/** Whether a request's model is on a server of the caller's own, and the request does not say where that is. */
export function lacksAddress({ model, base_url: url }: Pick<ClientConfig, 'model' | 'base_url'>): boolean {
  return model != null && url == null && OWN_SERVER.test(model)
}

/**
 * The name of the model that a request chooses, in the words of this file: models of OpenRouter may stand without a
 * prefix, except at a gateway of the request's own. Undefined when it chooses none.
 *
 * @throws ConfigError the model needs a `base_url`.
 */
export function chosenName(config: ClientConfig): string | undefined {
  const { model, base_url: url } = config
  if (model == null) return undefined
  if (lacksAddress(config)) throw new ConfigError(`client_config.base_url: say where the server for "${model}" is.`)
  if (url == null && model.startsWith('openrouter/')) return `thirdparty/${model}`
  return model.replace(OWN_SERVER, 'thirdparty/openai_compatible/$1')
}

const OTHER_VENDOR = /^(?!openai\/|openrouter\/)[^/]+\//

/** Whether a name without our own prefix names the model of another vendor than the default one. */
export function isOfOtherVendor(name: string): boolean {
  return OTHER_VENDOR.test(name) && !THIRD_PARTY.test(name)
}

function openAiModel(name: string, config: ClientConfig, access: ModelAccess): ResolvedModel {
  const endpoint = endpointOf(config, access)
  const isResponses = access.api === 'responses'
  const transport = isResponses ? responsesTransport(endpoint) : chatCompletionsTransport(endpoint)
  const isCallers = config.base_url != null
  const runsHostedTools = isResponses && (!isCallers || isVendor(endpoint.baseUrl))
  return {
    kind: 'transport',
    name,
    // Headers of an agent's settings are the operator's and may hold keys.
    transport: isCallers ? (request, call) => transport(request, { ...call, headers: {} }) : transport,
    runsHostedTools,
    files: { endpoint, readsStoredFiles: isResponses, runsCode: runsHostedTools },
  }
}

/** Where a request of this run goes and with which key: the operator's key stays with the operator's URL. */
export function endpointOf(config: ClientConfig, access: ModelAccess): ModelEndpoint {
  const added = extraHeaders(config.model_settings_extra_args ?? {})
  const headers = { ...readHeaders(config.default_headers ?? {}), ...readHeaders(added) }
  if (config.base_url != null) {
    requireCallerUrl(config.base_url, access)
    return {
      baseUrl: config.base_url,
      apiKey: config.api_key ?? undefined,
      headers,
      dispatcher: access.callerDispatcher,
    }
  }
  const apiKey = config.api_key ?? access.apiKey
  if (apiKey === undefined && isVendor(access.baseUrl)) {
    throw new ModelError('upstream_auth_failed', { detail: 'no API key: set OPENAI_API_KEY, or use the model "demo"' })
  }
  return {
    baseUrl: access.baseUrl,
    apiKey,
    headers: { ...access.headers, ...headers },
    dispatcher: access.dispatcher,
  }
}

function findEndpoint(config: ClientConfig, access: ModelAccess): ModelEndpoint | undefined {
  const hasKey = config.base_url != null || (config.api_key ?? access.apiKey) !== undefined
  return hasKey || !isVendor(access.baseUrl) ? endpointOf(config, access) : undefined
}

export const VENDOR_BASE_URL = 'https://api.openai.com/v1'

function isVendor(baseUrl: string): boolean {
  return baseUrl.replace(/\/+$/, '') === VENDOR_BASE_URL
}

function requireCallerUrl(url: string, access: ModelAccess): void {
  try {
    access.checkCallerUrl(url)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'The address is not allowed.'
    throw new ConfigError(`client_config.base_url: ${reason}`, { cause })
  }
}

/** What frames a request is not the caller's to set. */
const FRAMING =
  /^(?:accept|accept-encoding|connection|content-.*|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$/

function readHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const)
  return Object.fromEntries(entries.filter(([name]) => !FRAMING.test(name)))
}

/** Keys of the request first; a bare `api_key` is for the default vendor's kind of provider only. */
function thirdParty(name: string, config: ClientConfig, access: ModelAccess): ResolvedModel {
  const provider = name.slice(0, Math.max(0, name.indexOf('/')))
  const isCallers = config.base_url != null
  if (isCallers) requireCallerUrl(config.base_url, access)
  const apiKey = keyFor(provider, config)
  const model = thirdPartyModel(name, {
    ...(apiKey !== undefined && { apiKey }),
    ...(isCallers && { baseUrl: config.base_url }),
    headers: readHeaders(config.default_headers ?? {}),
    readKey: isCallers ? () => undefined : access.readKey,
    dispatcher: isCallers ? access.callerDispatcher : access.dispatcher,
  })
  const extra = config.model_settings_extra_args ?? {}
  return {
    kind: 'sdk',
    name,
    model,
    adjust: (settings) => thirdPartySettings(isCallers ? withoutHeaders(settings) : settings, extra, provider),
    runsHostedTools: false,
    files: { endpoint: findEndpoint(config, access), readsStoredFiles: false, runsCode: false },
  }
}

/** A provider may be called by either of its names. */
const NAMES: Readonly<Record<string, string>> = { gemini: 'google', google: 'gemini' }
const TAKES_API_KEY = new Set(['openai_compatible', 'openai-compatible'])

/** The key that a request brings for a provider. */
export function keyFor(provider: string, config: ClientConfig): string | undefined {
  const keys = config.thirdparty_keys ?? {}
  const other = NAMES[provider]
  const own = keys[provider] ?? (other === undefined ? undefined : keys[other]) ?? keys[provider.replace('-', '_')]
  return own ?? (TAKES_API_KEY.has(provider) ? (config.api_key ?? undefined) : undefined)
}

function withoutHeaders(settings: ModelSettings): ModelSettings {
  const { extraHeaders: _extra, headers: _headers, ...providerData } = settings.providerData ?? {}
  return { ...settings, providerData }
}

type Resolving = { readonly config: ClientConfig; readonly access: ModelAccess }

/** A stock object keeps its transport; what it hides of its client cannot be changed, only replaced by an address. */
function resolveStock(model: Model, stock: StockModel, { config, access }: Resolving): ResolvedModel {
  const { api, client } = stock
  const chosen = chosenName(config)
  if (chosen !== undefined && (client || config.base_url != null || THIRD_PARTY.test(chosen))) {
    return resolveName('', config, { ...access, api, ...client })
  }
  if (client) return openAiModel(stock.name ?? '', config, { ...access, api, ...client })
  if (config.base_url == null) return resolveObject(model, config, access)
  const replaced = openAiModel(stock.name ?? modelNameOf(model), config, { ...access, api })
  if (stock.name !== undefined || replaced.kind !== 'transport') return replaced
  return {
    ...replaced,
    transport: async (request, call) => replaced.transport({ ...request, model: await learnName(model) }, call),
  }
}

/** A model object as it is. Of `client_config` the SDK's own classes take what their requests can carry. */
function resolveObject(model: Model, config: ClientConfig, access: ModelAccess): ResolvedModel {
  const className = model.constructor.name
  const isStock = readStockModel(model) !== undefined
  const extra = config.model_settings_extra_args ?? {}
  const overrides = { ...extra, ...(config.model != null && { model: config.model }) }
  return {
    kind: 'sdk',
    name: modelNameOf(model),
    model,
    adjust: (settings) => {
      if (isStock) return extraBodySettings(settings, overrides)
      return className === 'AiSdkModel' ? thirdPartySettings(settings, extra) : settings
    },
    runsHostedTools: className !== 'OpenAIChatCompletionsModel',
    files: { endpoint: findEndpoint({}, access), readsStoredFiles: false, runsCode: false },
  }
}

function modelNameOf(model: Model): string {
  const name = (model as { model?: unknown }).model ?? (model as { modelId?: unknown }).modelId
  return typeof name === 'string' ? name : model.constructor.name
}
