import type { ClientConfig } from './client-config.ts'
import { DEMO_MODEL, isOfOtherVendor, type ModelAccess } from './resolve-model.ts'
import type { ModelObject } from '../agency/model-object.ts'

/**
 * Why a request's `client_config` does not reach an agent's model, in a sentence for the log; undefined when it does, or
 * when it asks for nothing that this model could take.
 */
export function skippedOverride(
  agent: { readonly model: string | ModelObject },
  config: ClientConfig,
  { defaultModel }: Pick<ModelAccess, 'defaultModel'>,
): string | undefined {
  const model = agent.model || defaultModel
  if (typeof model === 'string') return config.model == null ? skippedByName(model, config) : undefined
  return asksForAnything(config) ? 'a model object is called as it is' : undefined
}

function skippedByName(name: string, config: ClientConfig): string | undefined {
  if (!asksForAddressOrKey(config)) return undefined
  if (name === DEMO_MODEL) return 'the demo model asks no provider'
  return isOfOtherVendor(name) ? 'models of other vendors stay where the operator has them' : undefined
}

function asksForAddressOrKey({ base_url: url, api_key: key, default_headers: headers }: ClientConfig): boolean {
  return url != null || key != null || headers != null
}

function asksForAnything(config: ClientConfig): boolean {
  return asksForAddressOrKey(config) || config.model != null || config.model_settings_extra_args != null
}
