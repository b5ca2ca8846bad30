/** How an agent's model is asked. Members that a provider does not know are left out for it. */
export type ModelSettings = {
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly frequencyPenalty?: number | undefined
  readonly presencePenalty?: number | undefined
  /** `auto`, `required`, `none`, or the name of the tool that must be called. */
  readonly toolChoice?: string | undefined
  readonly parallelToolCalls?: boolean | undefined
  readonly truncation?: string | undefined
  /** Largest number of output tokens. */
  readonly maxTokens?: number | undefined
  /** False: the provider keeps nothing of the answers. Default: it keeps them. */
  readonly store?: boolean | undefined
  readonly promptCacheRetention?: string | null | undefined
  readonly promptCacheOptions?: object | undefined
  readonly contextManagement?: readonly object[] | undefined
  readonly reasoning?: { readonly effort?: string | null; readonly summary?: string | null } | undefined
  readonly text?: { readonly verbosity?: string | null } | undefined
  /** More members of the request, by their names on the wire; `extraHeaders`, `extraBody`. */
  readonly providerData?: Readonly<Record<string, unknown>> | undefined
  /** More attempts after failures that may pass. The provider's transport has made two of its own before. */
  readonly retry?: ModelRetry | undefined
  /** Longest time that one request to the model may take, in milliseconds. Default: the run's. */
  readonly timeoutMs?: number | undefined
}

export type ModelRetry = {
  readonly maxRetries?: number
  readonly backoff?: { readonly initialDelayMs?: number; readonly maxDelayMs?: number; readonly multiplier?: number }
}

/** The settings of models that reason before they answer, where an agent sets none: quick and short. */
export function defaultSettingsFor(model: string): ModelSettings {
  const family = REASONING_MODEL.exec(model)
  if (!family || Number(family[1]) < 5 || CHAT_ALIAS.test(model)) return {}
  const effort = EFFORTS.find(([pattern]) => pattern.test(model))?.[1]
  return { ...(effort !== undefined && { reasoning: { effort } }), text: { verbosity: 'low' } }
}

const REASONING_MODEL = /^gpt-(\d+)(?:\.\d+)?(?:-|$)/
/** These take no reasoning settings. */
const CHAT_ALIAS = /^gpt-5(?:\.[1-3])?-chat-latest$/
const DATED = String.raw`(?:-\d{4}-\d{2}-\d{2})?$`

/** The least effort that each model takes; unknown ones keep the provider's default. */
const EFFORTS: readonly (readonly [RegExp, string])[] = [
  [new RegExp(`^gpt-5${DATED}`), 'low'],
  [/^gpt-(?:6-astra|5\.2-codex)$/, 'low'],
  [new RegExp(String.raw`^gpt-5\.[245]-pro${DATED}`), 'medium'],
  [/^gpt-5\.3-codex$/, 'none'],
  [new RegExp(String.raw`^gpt-5\.(?:[1245]|4-mini|4-nano|6|6-sol|6-terra|6-luna)${DATED}`), 'none'],
]
