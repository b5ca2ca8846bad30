import type { ModelSettings } from '../agency/model-settings.ts'
import { ConfigError } from '@bureau/protocol'
import type { Dispatcher } from 'undici'
import { aiSdkTransport } from './ai-sdk/ai-sdk-transport.ts'
import type { FileAccess } from './ai-sdk/file-downloads.ts'
import { isLanguageModel, type LanguageModel, languageModelName } from '../agency/language-model.ts'
import { withExtraArguments, withPenalties } from './ai-sdk/settings.ts'
import { chatCompletionsTransport } from './chat-completions.ts'
import type { ClientConfig } from './client-config.ts'
import { demoTransport } from './demo.ts'
import { applyExtraArguments, extraHeaders } from './extra-arguments.ts'
import { type ModelEndpoint, responsesTransport } from './responses.ts'
import { setVariable, thirdPartyTransport } from './third-party.ts'
import { ModelError } from './model-error.ts'
import type { ModelObject, ModelTransport, ResponsesRequest, ResponsesTransport } from '../agency/model-object.ts'

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
  readonly defaultModel: string | ModelObject
  /** Reads a key of another provider, e.g. `ANTHROPIC_API_KEY`. */
  readonly readKey: (name: string) => string | undefined
  /** What to do about a setting that is not there, such as `ANTHROPIC_API_KEY`. Absent: set the variable. */
  readonly howToSet?: ((name: string) => string) | undefined
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

/** A model for one conversation. */
export type ResolvedModel = {
  readonly name: string
  readonly transport: ResponsesTransport
  /** Lays the agent's settings that the Responses API has no member for, and those of the run, over a request. */
  readonly adjust: (request: ResponsesRequest, settings: ModelSettings, extra: ExtraArgs) => ResponsesRequest
  /** False: tools that only the default vendor can run are replaced. */
  readonly runsHostedTools: boolean
  readonly files: FileService
}

type ExtraArgs = Readonly<Record<string, unknown>>

const withExtraBody: ResolvedModel['adjust'] = (request, _settings, extra) => applyExtraArguments(request, extra)

export const DEMO_MODEL = 'demo'

/** Model of agents that name none, when a provider is configured and nobody says otherwise. */
export const DEFAULT_MODEL = 'gpt-5-mini'

type HasModel = { readonly name: string; readonly model: string | ModelObject }

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
export function resolveModel(agent: HasModel, config: ClientConfig, access: ModelAccess): ResolvedModel {
  const model = agent.model || access.defaultModel
  if (typeof model === 'string') return resolveName(model, config, access)
  if (isLanguageModel(model)) return resolveLanguageModel(model, config, access)
  return resolveTransport(model, access)
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
    return { name, transport: demoTransport, adjust: withExtraBody, runsHostedTools: false, files }
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
const OWN_SERVER = /^(?:thirdparty|litellm)\/(?<server>ollama|ollama_chat|lm_studio)\/(?<name>.+)$/

/** Whether keys can be named after a kind of server of the caller's own. */
export function isOwnServer(name: string): boolean {
  return OWN_SERVER.test(`thirdparty/${name}/model`)
}

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
  return model.replace(OWN_SERVER, 'thirdparty/openai_compatible/$<name>')
}

const OTHER_VENDOR = /^(?!openai\/|openrouter\/)[^/]+\//

/** Whether a name without our own prefix names the model of another vendor than the default one. */
export function isOfOtherVendor(name: string): boolean {
  return OTHER_VENDOR.test(name) && !THIRD_PARTY.test(name)
}

function openAiModel(name: string, config: ClientConfig, access: ModelAccess): ResolvedModel {
  const endpoint = endpointOf(config, access, name)
  const isResponses = access.api === 'responses'
  const transport = isResponses ? responsesTransport(endpoint) : chatCompletionsTransport(endpoint)
  const isCallers = config.base_url != null
  const runsHostedTools = isResponses && (!isCallers || isVendor(endpoint.baseUrl))
  return {
    name,
    adjust: withExtraBody,
    // Headers of an agent's settings are the operator's and may hold keys.
    transport: isCallers ? (request, call) => transport(request, { ...call, headers: {} }) : transport,
    runsHostedTools,
    files: { endpoint, readsStoredFiles: isResponses, runsCode: runsHostedTools },
  }
}

/** Where a request of this run goes and with which key: the operator's key stays with the operator's URL. */
function endpointOf(config: ClientConfig, access: ModelAccess, name = ''): ModelEndpoint {
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
    const vendors = isOfOtherVendor(name) ? ` For the vendor itself, name the model thirdparty/${name}.` : ''
    const { howToSet = setVariable } = access
    const message = `There is no API key for the model: ${howToSet('OPENAI_API_KEY')}.${vendors}`
    throw new ModelError('upstream_auth_failed', { message })
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
  const extraArgs = config.model_settings_extra_args ?? {}
  const transport = thirdPartyTransport(name, {
    ...(apiKey !== undefined && { apiKey }),
    ...(isCallers && { baseUrl: config.base_url }),
    headers: readHeaders(config.default_headers ?? {}),
    files: fileAccess(access),
    readKey: isCallers ? () => undefined : access.readKey,
    howToSet: access.howToSet,
    dispatcher: isCallers ? access.callerDispatcher : access.dispatcher,
  })
  const added = readHeaders(extraHeaders(extraArgs))
  return {
    name,
    // Headers of an agent's settings are the operator's and may hold keys.
    transport: (request, call) =>
      transport(request, { ...call, headers: { ...(isCallers ? {} : call.headers), ...added } }),
    adjust: (request, settings, extra) => withExtraArguments(withPenalties(request, settings), extra, provider),
    runsHostedTools: false,
    files: { endpoint: findEndpoint(config, access), readsStoredFiles: false, runsCode: false },
  }
}

/** A model of the AI SDK has its own address and key. Of `client_config` it takes the settings that all models have. */
function resolveLanguageModel(model: LanguageModel, config: ClientConfig, access: ModelAccess): ResolvedModel {
  const transport = aiSdkTransport(model, fileAccess(access))
  const added = readHeaders(extraHeaders(config.model_settings_extra_args ?? {}))
  return {
    name: languageModelName(model),
    transport: (request, call) => transport(request, { ...call, headers: { ...call.headers, ...added } }),
    adjust: (request, settings, extra) => withExtraArguments(withPenalties(request, settings), extra),
    runsHostedTools: false,
    files: { endpoint: findEndpoint({}, access), readsStoredFiles: false, runsCode: false },
  }
}

function fileAccess({ callerDispatcher: dispatcher, checkCallerUrl: checkUrl }: ModelAccess): FileAccess {
  return { dispatcher, checkUrl }
}

/** A provider may be called by either of its names. */
const NAMES: Readonly<Record<string, string>> = { gemini: 'google', google: 'gemini' }
const TAKES_API_KEY = new Set(['openai_compatible', 'openai-compatible'])

/** The key that a request brings for a provider. */
export function keyFor(provider: string, config: ClientConfig): string | undefined {
  const keys = config.thirdparty_keys ?? {}
  const { server } = OWN_SERVER.exec(config.model ?? '')?.groups ?? {}
  if (server !== undefined && keys[server] !== undefined) return keys[server]
  const other = NAMES[provider]
  const own = keys[provider] ?? (other === undefined ? undefined : keys[other]) ?? keys[provider.replace('-', '_')]
  return own ?? (TAKES_API_KEY.has(provider) ? (config.api_key ?? undefined) : undefined)
}

/** A model object is called as it is, and gets nothing of the request's `client_config`. */
function resolveTransport(model: ModelTransport, access: ModelAccess): ResolvedModel {
  return {
    name: model.name,
    transport: (request, call) => model.request(request, call),
    adjust: (request) => request,
    runsHostedTools: model.runsHostedTools ?? false,
    files: { endpoint: findEndpoint({}, access), readsStoredFiles: false, runsCode: false },
  }
}
