import { type Fields, fieldsOf } from '@bureau/protocol'
import type { ModelSettings } from '../../agency/model-settings.ts'
import { readArguments } from '../extra-arguments.ts'
import { respelled } from '../members.ts'
import type { ResponsesRequest } from '../../agency/model-object.ts'
import { COMMON_SETTINGS } from './call-options.ts'

/** Providers whose options are the members of the body, in the spelling of the wire. */
const SENDS_BODY_MEMBERS = new Set(['openai_compatible', 'openrouter'])

/** The penalties of an agent's settings, for which the Responses API has no member. */
export function withPenalties(request: ResponsesRequest, settings: ModelSettings): ResponsesRequest {
  const { frequencyPenalty, presencePenalty } = settings
  return {
    ...request,
    ...(frequencyPenalty !== undefined && { frequency_penalty: frequencyPenalty }),
    ...(presencePenalty !== undefined && { presence_penalty: presencePenalty }),
  }
}

/**
 * Lays `client_config.model_settings_extra_args` over a request for a model of the AI SDK.
 *
 * What every model has becomes that member of the request; the rest becomes options of the provider: members of the body
 * as they are, or in camelCase with thinking budgets and levels where the provider has them. Without a provider, when the
 * model object is the agent's own, the rest is left out.
 */
export function withExtraArguments(request: ResponsesRequest, extra: Fields, provider?: string): ResponsesRequest {
  if (Object.keys(extra).length === 0) return request
  const { reasoning, include: _include, ...rest } = readArguments(extra)
  const common: Record<string, unknown> = {}
  const own: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(rest)) {
    const wire = name === 'max_tokens' ? 'max_output_tokens' : name
    if (Object.hasOwn(COMMON_SETTINGS, wire)) common[wire] = value
    else own[name] = value
  }
  return {
    ...request,
    ...common,
    ...(reasoning && { reasoning: { ...fieldsOf(request['reasoning']), ...reasoning } }),
    ...(provider !== undefined &&
      Object.keys(own).length > 0 && { providerOptions: withOptions(request['providerOptions'], provider, own) }),
  }
}

function withOptions(given: unknown, provider: string, own: Fields): Fields {
  const name = provider === 'gemini' ? 'google' : provider.replaceAll('-', '_')
  const options = SENDS_BODY_MEMBERS.has(name) ? own : optionsOf(name, own)
  return { ...fieldsOf(given), [name]: { ...fieldsOf(fieldsOf(given)[name]), ...options } }
}

function optionsOf(provider: string, { thinking_budget: budget, thinking_level: level, ...own }: Fields): Fields {
  const options = fieldsOf(camelCased(own))
  if (provider === 'anthropic' && budget !== undefined) {
    return { ...options, thinking: { type: 'enabled', budgetTokens: budget } }
  }
  if (provider !== 'google' || (budget === undefined && level === undefined)) return options
  const given = {
    ...(budget !== undefined && { thinkingBudget: budget }),
    ...(level !== undefined && { thinkingLevel: level }),
  }
  return { ...options, thinkingConfig: { ...fieldsOf(options['thinkingConfig']), ...given } }
}

function camelCased(value: unknown): unknown {
  return respelled(value, (name) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()))
}
