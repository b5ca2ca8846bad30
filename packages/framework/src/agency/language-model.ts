import { ConfigError } from '@bureau/protocol'

/**
 * A language model of the AI SDK, as its provider packages make them: `anthropic('claude-sonnet-4-5')`. Described by the
 * members that are read here, so that no version of `@ai-sdk/provider` has to be installed for the types.
 */
export type LanguageModel = {
  readonly specificationVersion: 'v2' | 'v3' | 'v4'
  /** The package's own name of its provider, such as `anthropic.messages`. */
  readonly provider: string
  readonly modelId: string
  doStream(options: never): PromiseLike<unknown>
}

/** A tool of a provider's package that the provider itself runs: `anthropic.tools.webSearch_20250305()`. */
export type ProviderTool = {
  readonly type: 'provider' | 'provider-defined'
  readonly id: string
  readonly args?: Readonly<Record<string, unknown>>
}

const VERSIONS: readonly unknown[] = ['v2', 'v3', 'v4']

/**
 * Whether an agent's model is one of the AI SDK.
 *
 * @throws ConfigError the object is of the AI SDK and cannot be an agent's model.
 */
export function isLanguageModel(model: unknown): model is LanguageModel {
  if (typeof model !== 'object' || model === null || !('specificationVersion' in model)) return false
  const { specificationVersion: version, modelId, doStream } = model as Partial<Record<keyof LanguageModel, unknown>>
  const name = typeof modelId === 'string' ? modelId : model.constructor.name
  if (typeof doStream !== 'function' || typeof modelId !== 'string') {
    throw new ConfigError(`The model ${name} is not a language model of the AI SDK. Give an agent one that can stream.`)
  }
  if (VERSIONS.includes(version)) return true
  throw new ConfigError(
    `The model ${name} has the specification version ${String(version)} of the AI SDK. Versions v2, v3 and v4 work.`,
  )
}

/** The vendor's name for options and metadata, such as `anthropic`. */
export function vendorOfModel({ provider }: LanguageModel): string {
  return provider.split('.')[0] ?? provider
}

/** What the model is called in usage, metadata and logs: `anthropic/claude-sonnet-4-5`. */
export function languageModelName(model: LanguageModel): string {
  return `${vendorOfModel(model)}/${model.modelId}`
}
