import {
  chargedVendor,
  type ClientConfig as ModelOverride,
  lacksAddress,
  lacksModel,
  type ModelAccess,
  unknownProvider,
  VENDORS,
} from '@bureau/framework'
import { type ClientConfig, isFields, type ValidationEntry } from '@bureau/protocol'
import type { ServerContext } from '../context.ts'
import { InvalidBody } from '../http/invalid-body.ts'

// RFC 9110: a token, and visible characters with spaces between.
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const KEY = /^[\x20-\x7e]*$/
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** A map of keys or headers may be as long as a body. */
const MAX_PROBLEMS = 20

/** What requests may choose. */
type Limits = Pick<ServerContext, 'environment' | 'callerVendors'>

type Configured = { readonly client_config?: ClientConfig | null | undefined }

type Report = (path: readonly string[], message: string, input: unknown) => void

/**
 * Checks of `client_config` what its schema cannot: addresses, provider names, headers, the settings that are read here, and
 * whether the operator pays for models of the vendor that it chooses.
 *
 * @throws InvalidBody
 */
export function checkClientConfig({ client_config: config }: Configured, { environment, callerVendors }: Limits): void {
  if (!config) return
  const entries: ValidationEntry[] = []
  const report: Report = (path, message, input) => {
    if (entries.length === MAX_PROBLEMS) return
    const loc = ['body', 'client_config', ...path]
    entries.push({ type: 'value_error', loc, msg: `Value error, ${message}`, input, ctx: { error: {} } })
  }
  checkBaseUrl(config, environment.models, report)
  checkVendor(config, callerVendors, report)
  checkKeys(config, report)
  checkModel(config, report)
  checkHeaders(config, report)
  checkExtraArguments(config.model_settings_extra_args ?? {}, report)
  if (entries.length > 0) throw new InvalidBody(entries)
}

function checkBaseUrl({ base_url: url }: ClientConfig, models: ModelAccess, report: Report): void {
  if (url == null) return
  try {
    models.checkCallerUrl(url)
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'The address is not allowed.'
    report(['base_url'], `client_config.base_url cannot be used. ${reason}`, url)
  }
}

function checkVendor(config: ClientConfig, vendors: ReadonlySet<string>, report: Report): void {
  const vendor = chargedVendor(toClientConfig(config))
  if (vendor === undefined || vendors.has(vendor)) return
  const remedy = vendor === 'openai' ? 'api_key' : `thirdparty_keys.${vendor}`
  const offered = vendors.size > 0 ? `offers models of ${[...vendors].join(', ')}, but not` : 'offers no models'
  report(['model'], `this server ${offered} of '${vendor}'. Send a key of your own in ${remedy}`, config.model)
}

/** Keys of unknown providers are ignored: clients send all that their user has. A model of one cannot be. */
function checkModel(config: ClientConfig, report: Report): void {
  const asked = toClientConfig(config)
  const provider = unknownProvider(asked)
  if (provider !== undefined) {
    const names = VENDORS.join(', ')
    report(['model'], `there is no provider '${provider.slice(0, 64)}'. Providers: ${names}`, config.model)
  } else if (lacksModel(asked)) {
    report(
      ['model'],
      'the name of the model is missing behind that of its provider: thirdparty/<provider>/<model>',
      config.model,
    )
  }
  if (lacksAddress(asked)) report(['base_url'], 'this model is on a server of your own: say where in base_url', null)
}

/** Keys are sent in headers. */
function checkKeys(config: ClientConfig, report: Report): void {
  const keys = (['thirdparty_keys', 'litellm_keys'] as const).flatMap((field) =>
    Object.entries(config[field] ?? {}).map(([name, key]) => [[field, name], key] as const),
  )
  for (const [path, key] of [[['api_key'], config.api_key ?? ''] as const, ...keys]) {
    if (!KEY.test(key ?? '')) report(path, 'this is not a valid key', '')
  }
}

function checkHeaders({ default_headers: headers }: ClientConfig, report: Report): void {
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (!HEADER_NAME.test(name)) report(['default_headers', name], 'this is not a valid header name', name)
    else if (!HEADER_VALUE.test(value)) report(['default_headers', name], 'this is not a valid header value', name)
  }
}

const KINDS: Readonly<Record<string, { readonly says: string; readonly fits: (value: unknown) => boolean }>> = {
  reasoning_effort: { says: 'a string', fits: (value) => typeof value === 'string' },
  reasoning_summary: { says: 'a string', fits: (value) => typeof value === 'string' },
  include: { says: 'a list of strings', fits: isStringList },
  max_tokens: { says: 'a whole number above 0', fits: (value) => Number.isInteger(value) && Number(value) > 0 },
  extra_body: { says: 'an object', fits: isFields },
  extra_headers: { says: 'an object of valid header values', fits: isHeaders },
}

function checkExtraArguments(extra: Readonly<Record<string, unknown>>, report: Report): void {
  for (const [name, { says, fits }] of Object.entries(KINDS)) {
    const value = extra[name]
    if (value === undefined || value === null || fits(value)) continue
    report(['model_settings_extra_args', name], `${name} should be ${says}`, value)
  }
}

function isStringList(value: unknown): boolean {
  return Array.isArray(value) && value.every((entry) => typeof entry === 'string')
}

function isHeaders(value: unknown): boolean {
  return (
    isFields(value) &&
    Object.entries(value).every(
      ([name, text]) => HEADER_NAME.test(name) && typeof text === 'string' && HEADER_VALUE.test(text),
    )
  )
}

/**
 * A request's override in the words of the framework: both names of the keys are one, and a key that is null or blank is
 * absent, so that it neither counts as the caller's own nor takes the place of another.
 */
export function toClientConfig({ litellm_keys, thirdparty_keys, api_key, ...rest }: ClientConfig): ModelOverride {
  const keys = [litellm_keys, thirdparty_keys].flatMap((given) => Object.entries(given ?? {}))
  return {
    ...rest,
    api_key: isKey(api_key) ? api_key : null,
    thirdparty_keys: Object.fromEntries(keys.filter(([, key]) => isKey(key))),
  } as ModelOverride
}

function isKey(text: string | null | undefined): boolean {
  return text != null && text.trim() !== ''
}
