import { ConfigError } from '@bureau/protocol'
import type { LanguageModel } from '../agency/language-model.ts'
import { notInstalled } from '../optional-packages.ts'

type ProviderSettings = {
  readonly baseURL: string
  readonly apiKey: string | undefined
  readonly headers: Record<string, string>
  readonly fetch: typeof fetch
}

export type Provider = {
  readonly name: string
  readonly packageName: string
  /** Absent: there is no usual address, one must be given. */
  readonly baseUrl?: string
  /** Variables that usually hold the key, best first. None of them is needed where `keyless`. */
  readonly keyNames: readonly string[]
  readonly baseUrlName: string
  readonly keyless?: boolean
  readonly open: (settings: ProviderSettings, model: string) => Promise<LanguageModel>
}

/** The addresses are always handed over, because the packages would otherwise look them up in the environment. */
const PROVIDERS: readonly Provider[] = [
  {
    name: 'anthropic',
    packageName: '@ai-sdk/anthropic',
    baseUrl: 'https://api.anthropic.com/v1',
    keyNames: ['ANTHROPIC_API_KEY'],
    baseUrlName: 'ANTHROPIC_BASE_URL',
    open: async (settings, model) => (await import('@ai-sdk/anthropic')).createAnthropic(withKey(settings))(model),
  },
  {
    name: 'google',
    packageName: '@ai-sdk/google',
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
    keyNames: ['GEMINI_API_KEY', 'GOOGLE_GENERATIVE_AI_API_KEY', 'GOOGLE_API_KEY'],
    baseUrlName: 'GEMINI_BASE_URL',
    open: async (settings, model) => (await import('@ai-sdk/google')).createGoogle(withKey(settings))(model),
  },
  {
    name: 'mistral',
    packageName: '@ai-sdk/mistral',
    baseUrl: 'https://api.mistral.ai/v1',
    keyNames: ['MISTRAL_API_KEY'],
    baseUrlName: 'MISTRAL_BASE_URL',
    open: async (settings, model) => (await import('@ai-sdk/mistral')).createMistral(withKey(settings))(model),
  },
  {
    name: 'xai',
    packageName: '@ai-sdk/xai',
    baseUrl: 'https://api.x.ai/v1',
    keyNames: ['XAI_API_KEY'],
    baseUrlName: 'XAI_BASE_URL',
    open: async (settings, model) => (await import('@ai-sdk/xai')).createXai(withKey(settings))(model),
  },
  {
    name: 'openrouter',
    packageName: '@openrouter/ai-sdk-provider',
    baseUrl: 'https://openrouter.ai/api/v1',
    keyNames: ['OPENROUTER_API_KEY'],
    baseUrlName: 'OPENROUTER_BASE_URL',
    // Without these two the server sends no token counts in streams.
    open: async (settings, model) => {
      const { createOpenRouter } = await import('@openrouter/ai-sdk-provider')
      return createOpenRouter({ ...withKey(settings), compatibility: 'strict' })(model, { usage: { include: true } })
    },
  },
  {
    name: 'openai_compatible',
    packageName: '@ai-sdk/openai-compatible',
    keyNames: ['OPENAI_COMPATIBLE_API_KEY'],
    baseUrlName: 'OPENAI_COMPATIBLE_BASE_URL',
    keyless: true,
    open: async (settings, model) => {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
      const options = { name: 'openai_compatible', includeUsage: true, supportsStructuredOutputs: true }
      return createOpenAICompatible({ ...options, ...withKey(settings) })(model)
    },
  },
]

const ALIASES: Readonly<Record<string, string>> = { gemini: 'google', 'openai-compatible': 'openai_compatible' }

export const providerNames: readonly string[] = PROVIDERS.map(({ name }) => name)

/** The variables that name another address of a provider. */
export const providerAddressNames: readonly string[] = PROVIDERS.map(({ baseUrlName }) => baseUrlName)

/** The first name of a provider that may be called by another one; undefined when there is no such provider. */
export function providerNameOf(name: string): string | undefined {
  return findProvider(name)?.name
}

/** @throws ConfigError when there is no such provider. */
export function getProvider(name: string): Provider {
  const provider = findProvider(name)
  if (provider) return provider
  throw new ConfigError(`There is no model provider "${name}". Known providers: ${providerNames.join(', ')}.`)
}

function findProvider(name: string): Provider | undefined {
  return PROVIDERS.find((each) => each.name === (ALIASES[name] ?? name))
}

function withKey({ apiKey, ...settings }: ProviderSettings): Omit<ProviderSettings, 'apiKey'> & { apiKey?: string } {
  return apiKey === undefined ? settings : { ...settings, apiKey }
}

/**
 * Loads what optional packages offer.
 *
 * @throws ConfigError that says what to install, when a package is not there.
 */
export async function loadOptional<Loaded>(names: readonly string[], load: () => Promise<Loaded>): Promise<Loaded> {
  try {
    return await load()
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw notInstalled('This model needs', names, cause)
  }
}
