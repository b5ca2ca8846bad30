import type { ModelSettings } from '#agents-core'
import { asFields, extraHeaders, readArguments } from './extra-arguments.ts'

type Fields = Readonly<Record<string, unknown>>

/** Settings that the AI SDK has for every provider, by their names on the wire. */
const COMMON: Readonly<Record<string, string>> = {
  temperature: 'temperature',
  top_p: 'topP',
  frequency_penalty: 'frequencyPenalty',
  presence_penalty: 'presencePenalty',
  max_tokens: 'maxOutputTokens',
  top_k: 'topK',
  seed: 'seed',
  stop: 'stopSequences',
}

/** Providers whose options are the members of the body, in the spelling of the wire. */
const SENDS_BODY_MEMBERS = new Set(['openai_compatible', 'openrouter'])

/**
 * Lays `client_config.model_settings_extra_args` over the settings of an AI SDK model.
 *
 * What every provider has goes where the AI SDK expects it; the rest becomes options of the provider: members of the body
 * as they are, or in camelCase with thinking budgets and levels where the provider has them. Without a provider, when the
 * object is the agent's own, the rest is left out.
 */
export function thirdPartySettings(settings: ModelSettings, extra: Fields, provider?: string): ModelSettings {
  if (Object.keys(extra).length === 0) return settings
  const { reasoning, include: _include, ...rest } = readArguments(extra)
  const common: Record<string, unknown> = {}
  const own: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(rest)) {
    const known = COMMON[name]
    if (known === undefined) own[name] = value
    else common[known] = name === 'stop' ? [value].flat() : value
  }
  const providerData = asFields(settings.providerData)
  const headers = { ...asFields(providerData['headers']), ...extraHeaders(extra) }
  return {
    ...settings,
    ...(reasoning && { reasoning: { ...settings.reasoning, ...reasoning } }),
    providerData: {
      ...providerData,
      ...common,
      ...(Object.keys(headers).length > 0 && { headers }),
      ...(provider !== undefined &&
        Object.keys(own).length > 0 && { providerOptions: withOptions(providerData, provider, own) }),
    },
  }
}

function withOptions({ providerOptions }: Fields, provider: string, own: Fields): Fields {
  const name = provider === 'gemini' ? 'google' : provider.replaceAll('-', '_')
  const options = SENDS_BODY_MEMBERS.has(name) ? own : optionsOf(name, own)
  return { ...asFields(providerOptions), [name]: { ...asFields(asFields(providerOptions)[name]), ...options } }
}

function optionsOf(provider: string, { thinking_budget: budget, thinking_level: level, ...own }: Fields): Fields {
  const options = asFields(camelCased(own))
  if (provider === 'anthropic' && budget !== undefined) {
    return { ...options, thinking: { type: 'enabled', budgetTokens: budget } }
  }
  if (provider !== 'google' || (budget === undefined && level === undefined)) return options
  const given = {
    ...(budget !== undefined && { thinkingBudget: budget }),
    ...(level !== undefined && { thinkingLevel: level }),
  }
  return { ...options, thinkingConfig: { ...asFields(options['thinkingConfig']), ...given } }
}

function camelCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCased)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      camelCased(member),
    ]),
  )
}
