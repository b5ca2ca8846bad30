import type { ModelSettings } from '#agents-core'
import { COMMON_SETTINGS } from './ai-sdk/call-options.ts'
import { asFields, extraHeaders, readArguments } from './extra-arguments.ts'

type Fields = Readonly<Record<string, unknown>>

/**
 * Lays `client_config.model_settings_extra_args` over the settings of a model object that the agents SDK has made of one
 * of the AI SDK: what every provider has goes where the AI SDK expects it, and the rest is left out.
 */
export function adapterSettings(settings: ModelSettings, extra: Fields): ModelSettings {
  if (Object.keys(extra).length === 0) return settings
  const { reasoning, include: _include, max_tokens: maxOutputTokens, ...rest } = readArguments(extra)
  const common: Record<string, unknown> = maxOutputTokens === undefined ? {} : { maxOutputTokens }
  for (const [name, value] of Object.entries(rest)) {
    if (Object.hasOwn(COMMON_SETTINGS, name)) common[COMMON_SETTINGS[name]!] = name === 'stop' ? [value].flat() : value
  }
  const providerData = asFields(settings.providerData)
  const headers = { ...asFields(providerData['headers']), ...extraHeaders(extra) }
  return {
    ...settings,
    ...(reasoning && { reasoning: { ...settings.reasoning, ...reasoning } }),
    providerData: { ...providerData, ...common, ...(Object.keys(headers).length > 0 && { headers }) },
  }
}
