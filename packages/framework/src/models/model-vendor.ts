import type { Agency } from '../agency/agency.ts'
import type { ClientConfig } from './client-config.ts'
import { chosenName, DEMO_MODEL, isOwnServer, keyFor, lacksAddress, THIRD_PARTY } from './resolve-model.ts'
import { getProvider, providerNames, providerNameOf } from './third-party-providers.ts'

/** The default vendor, by its name in `thirdparty/openai/…`. */
const DEFAULT_VENDOR = 'openai'

/** Every vendor for whose models an operator can have a key. */
export const VENDORS: readonly string[] = [DEFAULT_VENDOR, ...providerNames]

/** The vendors of the models that the agents of an agency have, as far as a request can choose others of them. */
export function vendorsOf({ agents }: Pick<Agency, 'agents'>, defaultModel: string): string[] {
  return [...agents.values()].flatMap(({ model }) =>
    typeof model === 'string' ? (vendorOf(model || defaultModel) ?? []) : [],
  )
}

/**
 * The vendor whose model a request has chosen by `client_config.model` and would use with the operator's key.
 *
 * Undefined when it has chosen none, brings a key of its own for that vendor, or asks at an address of its own, where the
 * operator's keys are never sent. Unknown providers are undefined too: no key of the operator belongs to them.
 */
export function chargedVendor(config: ClientConfig): string | undefined {
  const { base_url: url, api_key: key, thirdparty_keys: keys } = config
  if (url != null || lacksAddress(config)) return undefined
  const model = chosenName(config)
  if (model === undefined) return undefined
  const vendor = vendorOf(model)
  if (vendor === undefined) return undefined
  const named = providerIn(model)
  const own = vendor === DEFAULT_VENDOR ? ((named && keys?.[named]) ?? key) : keyFor(named!, config)
  return own == null ? vendor : undefined
}

/** The vendor of the model with this name. Undefined: the demo model, or a provider that is not known. */
function vendorOf(name: string): string | undefined {
  if (name === DEMO_MODEL) return undefined
  const provider = providerIn(name)
  return provider === undefined || provider === DEFAULT_VENDOR ? DEFAULT_VENDOR : providerNameOf(provider)
}

/** The provider that the name of a model begins with behind our own prefix. */
function providerIn(model: string): string | undefined {
  return THIRD_PARTY.exec(model)?.[1]?.split('/')[0]
}

/** Where models of another provider than the default one are asked with the operator's settings. */
type OtherProvider = {
  /** Undefined: there is no such provider, or it has no address. */
  readonly address?: string
  /** The variable that names another address. */
  readonly addressName?: string
  /** A variable that it needs and that is not set. */
  readonly missing?: string
}

/** The provider of the model with this name; undefined when it is the default one, or nobody is asked. */
export function otherProviderOf(
  model: string,
  read: (variable: string) => string | undefined,
): OtherProvider | undefined {
  const named = providerIn(model)
  if (named === undefined || named === DEFAULT_VENDOR) return undefined
  if (providerNameOf(named) === undefined) return {}
  const { baseUrl, baseUrlName: addressName, keyNames, keyless } = getProvider(named)
  const address = read(addressName) ?? baseUrl
  if (address === undefined) return { missing: addressName }
  const hasKey = keyless || keyNames.some(read)
  return { address, addressName, ...(!hasKey && { missing: keyNames[0]! }) }
}

/** The provider that the chosen model names and that is not known. */
export function unknownProvider(config: ClientConfig): string | undefined {
  const provider = thirdPartyName(config)?.split('/')[0]
  return provider === undefined || isProvider(provider) ? undefined : provider
}

/** Whether a request says whose model it chooses, and not which. */
export function lacksModel(config: ClientConfig): boolean {
  const name = thirdPartyName(config)
  return name !== undefined && !/\/./.test(name)
}

function thirdPartyName(config: ClientConfig): string | undefined {
  return lacksAddress(config) ? undefined : THIRD_PARTY.exec(chosenName(config) ?? '')?.[1]
}

/** Whether a request can bring keys for a provider of this name, which may be its other name. */
export function isProvider(name: string): boolean {
  return name === DEFAULT_VENDOR || providerNameOf(name) !== undefined || isOwnServer(name)
}
