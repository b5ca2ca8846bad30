import { ConfigError } from '@bureau/protocol'
import type { Dispatcher } from 'undici'
import { aiSdkTransport } from './ai-sdk/ai-sdk-transport.ts'
import type { FileAccess } from './ai-sdk/file-downloads.ts'
import { providerFetch } from './provider-fetch.ts'
import { getProvider, loadOptional, type Provider } from './third-party-providers.ts'
import { ModelError } from './model-error.ts'
import type { ResponsesTransport } from '../agency/model-object.ts'

export type ThirdPartyOptions = {
  readonly apiKey?: string
  readonly baseUrl?: string
  readonly headers: Readonly<Record<string, string>>
  /** Reads a setting of the operator, such as `ANTHROPIC_API_KEY`. Not asked for a key when `baseUrl` is given. */
  readonly readKey: (name: string) => string | undefined
  /** What to do about such a setting when it is not there. */
  readonly howToSet?: ((name: string) => string) | undefined
  readonly dispatcher: Dispatcher
  readonly files: FileAccess
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
export function thirdPartyTransport(name: string, options: ThirdPartyOptions): ResponsesTransport {
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
  return async (request, call) => {
    const opened = await loadOptional([provider.packageName], () => provider.open(settings, model))
    return aiSdkTransport(opened, options.files)(request, call)
  }
}

/** What whoever runs a server does about a setting that is not there. */
export const setVariable = (name: string): string => `set ${name}`

function addressOf(provider: Provider, { baseUrl, readKey, howToSet = setVariable }: ThirdPartyOptions): string {
  const address = baseUrl ?? readKey(provider.baseUrlName) ?? provider.baseUrl
  if (address === undefined) {
    throw new ConfigError(
      `The provider ${provider.name} has no address: give a base_url, or ${howToSet(provider.baseUrlName)}.`,
    )
  }
  return address
}

function keyOf(provider: Provider, options: ThirdPartyOptions): string | undefined {
  const { apiKey, baseUrl, readKey, howToSet = setVariable } = options
  const operators = baseUrl === undefined ? provider.keyNames.map(readKey).find((key) => key !== undefined) : undefined
  const key = apiKey ?? operators
  if (key !== undefined || provider.keyless) return key
  throw new ModelError('upstream_auth_failed', {
    message: `There is no API key for ${provider.name}: ${howToSet(provider.keyNames[0]!)}, or send thirdparty_keys.${provider.name}.`,
  })
}
