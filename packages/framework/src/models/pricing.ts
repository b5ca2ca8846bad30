import { createRequire } from 'node:module'
import type { calcPrice, PriceCalculation, Provider } from '@pydantic/genai-prices'
import { fieldsOf, type Usage } from '@bureau/protocol'

/** One answer of a model. */
type PricedResponse = {
  /** The model's name, with or without the provider in front, e.g. `gpt-5` or `anthropic/claude-sonnet-4-5`. */
  readonly model: string
  /** Who serves it, when the name does not say so, e.g. `azure`. */
  readonly provider?: string
  /** The tokens of this one answer: price tiers depend on the size of a single request. */
  readonly usage: Usage
  /** Which of those tokens are not text. */
  readonly media?: MediaTokens
}

/** Tokens of audio and images, which voice models charge apart, by the names of the price list. */
type MediaTokens = {
  readonly input_audio_tokens: number
  readonly cache_audio_read_tokens: number
  readonly output_audio_tokens: number
  readonly input_image_tokens: number
  readonly cache_image_read_tokens: number
}

/**
 * Estimates what one answer of a model cost, in US dollars, from a price list that ships with the package.
 *
 * Never throws: a model without a known price costs 0 and is reported as not priced. The dearer tier of a price holds
 * for the whole answer when its input tokens, cached ones included, exceed the tier's start.
 */
export function costOfResponse({ model, provider, usage, media }: PricedResponse): {
  costUsd: number
  priced: boolean
} {
  const entry = priceEntry(model, provider)
  if (entry?.rates && !media) return { costUsd: sumAtRates(billableTokens(usage, entry), entry.rates), priced: true }
  const price = entry && priceOfTokens(billableTokens(usage, entry), entry, media)
  return price ? { costUsd: price.total_price, priced: true } : { costUsd: 0, priced: false }
}

/**
 * Reads the `usage` of a Responses API response: one request, without its cost. Numbers that are missing or make no
 * sense count as 0, so that a compatible server's gaps do not spoil a sum.
 */
export function usageOfResponse(rawUsage: unknown): Usage {
  const usage = fieldsOf(rawUsage)
  const inputDetails = fieldsOf(usage['input_tokens_details'])
  const input = tokens(usage['input_tokens'])
  const output = tokens(usage['output_tokens'])
  const reasoning = tokens(fieldsOf(usage['output_tokens_details'])['reasoning_tokens'])
  return {
    request_count: 1,
    cached_tokens: tokens(inputDetails['cached_tokens']),
    cache_write_tokens: tokens(inputDetails['cache_write_tokens']),
    input_tokens: input,
    output_tokens: output,
    total_tokens: tokens(usage['total_tokens']) || input + output,
    total_cost: 0,
    ...(reasoning > 0 && { reasoning_tokens: reasoning }),
  }
}

/**
 * Reads the `usage` of a response in the Realtime API, which has other names for the same things and tells audio and
 * images apart.
 */
export function usageOfRealtimeResponse(model: string, rawUsage: unknown): { usage: Usage; priced: boolean } {
  const raw = fieldsOf(rawUsage)
  const input = fieldsOf(raw['input_token_details'])
  const output = fieldsOf(raw['output_token_details'])
  const cached = fieldsOf(input['cached_tokens_details'])
  const usage = usageOfResponse({ ...raw, input_tokens_details: input, output_tokens_details: output })
  const media = {
    input_audio_tokens: tokens(input['audio_tokens']),
    cache_audio_read_tokens: tokens(cached['audio_tokens']),
    output_audio_tokens: tokens(output['audio_tokens']),
    input_image_tokens: tokens(input['image_tokens']),
    cache_image_read_tokens: tokens(cached['image_tokens']),
  }
  const { costUsd, priced } = costOfResponse({ model, usage, media })
  return { usage: { ...usage, total_cost: costUsd }, priced }
}

function tokens(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
}

type BillableTokens = {
  readonly input_tokens: number
  readonly cache_read_tokens: number
  readonly cache_write_tokens: number
  readonly output_tokens: number
  readonly output_reasoning_tokens?: number
}

/** The price list takes cached tokens as parts of the input, and refuses parts that are larger than the whole. */
function billableTokens(usage: Usage, { chargesReasoning }: PriceEntry): BillableTokens {
  const input = tokens(usage.input_tokens)
  const output = tokens(usage.output_tokens)
  const cached = Math.min(tokens(usage.cached_tokens), input)
  const written = Math.min(tokens(usage.cache_write_tokens), input - cached)
  const read = { input_tokens: input, cache_read_tokens: cached, cache_write_tokens: written }
  if (!chargesReasoning) return { ...read, output_tokens: output }
  // Where reasoning has a price of its own it is charged beside the output; the list would take it out of the output.
  const reasoning = tokens(usage.reasoning_tokens)
  return { ...read, output_tokens: output + reasoning, output_reasoning_tokens: reasoning }
}

/** A part that is larger than the whole makes no sense to the list: then all counts as text. */
function priceOfTokens(
  tokens: BillableTokens,
  { provider }: PriceEntry,
  media: MediaTokens | undefined,
): PriceCalculation | undefined {
  const whole = media && priceOf({ ...tokens, ...media }, ENTRY_NAME, { provider })
  return whole ?? priceOf(tokens, ENTRY_NAME, { provider })
}

/** A provider with the one model that is meant, so that later look-ups do not search the list again. */
type PriceEntry = {
  readonly provider: Provider
  readonly chargesReasoning: boolean
  /** Undefined: the price of a token depends on the size of the request, or on the time. */
  readonly rates: Rates | undefined
}

/** US dollars for one token of each kind. */
type Rates = Readonly<Record<'input' | 'read' | 'written' | 'output' | 'reasoning', number>>

const ENTRY_NAME = 'model'

function priceEntry(model: string, provider: string | undefined): PriceEntry | undefined {
  if (model.length > MAX_NAME_CHARACTERS) return undefined
  const key = JSON.stringify([model, provider])
  const known = entries.get(key)
  if (known !== undefined) return known ?? undefined
  const found = findPrice(model, provider)
  if (entries.size >= MAX_ENTRIES) entries.clear()
  entries.set(key, found ?? null)
  return found
}

// A cache: providers name models freely, so it is bounded.
const entries = new Map<string, PriceEntry | null>()
const MAX_ENTRIES = 1_000
/** No model of the list has such a name, and the cache must not grow by what callers make up. */
const MAX_NAME_CHARACTERS = 256

function findPrice(model: string, provider: string | undefined): PriceEntry | undefined {
  for (const { name, providerId } of candidates(model, provider)) {
    const found = priceOf({ input_tokens: 0 }, name, providerId === undefined ? {} : { providerId })
    if (!found) continue
    const only = { ...found.model, match: { equals: ENTRY_NAME } }
    const provider = { ...found.provider, models: [only] }
    const chargesReasoning = found.model_price['output_reasoning_mtok'] !== undefined
    return { provider, chargesReasoning, rates: ratesOf(found, provider) }
  }
  return undefined
}

/** Asks the list for each kind of token once, because every request of a model is priced. */
function ratesOf({ model: { prices } }: PriceCalculation, provider: Provider): Rates | undefined {
  const isPlain = !Array.isArray(prices) && Object.values(prices).every((price) => typeof price === 'number')
  if (!isPlain || prices['requests_kcount'] !== undefined) return undefined
  const rate = (...kinds: readonly string[]): number => {
    const million = Object.fromEntries(kinds.map((kind) => [kind, 1_000_000]))
    return (priceOf(million, ENTRY_NAME, { provider })?.total_price ?? 0) / 1_000_000
  }
  return {
    input: rate('input_tokens'),
    read: rate('input_tokens', 'cache_read_tokens'),
    written: rate('input_tokens', 'cache_write_tokens'),
    output: rate('output_tokens'),
    reasoning: rate('output_tokens', 'output_reasoning_tokens'),
  }
}

function sumAtRates(tokens: BillableTokens, { input, read, written, output, reasoning }: Rates): number {
  const { input_tokens: all, cache_read_tokens: cached, cache_write_tokens: stored } = tokens
  const { output_tokens: produced, output_reasoning_tokens: thought = 0 } = tokens
  const inputCost = (all - cached - stored) * input + cached * read + stored * written
  return inputCost + (produced - thought) * output + thought * reasoning
}

type Candidate = { readonly name: string; readonly providerId?: string }

/** From the exact name to the vaguest that still means this model. */
function candidates(model: string, provider: string | undefined): Candidate[] {
  const path = model.replace(/^(thirdparty|litellm)\//, '')
  const slash = path.indexOf('/')
  const prefix = slash < 0 ? undefined : path.slice(0, slash)
  const last = path.slice(path.lastIndexOf('/') + 1)
  const undated = last.replace(/-\d{4}-\d{2}-\d{2}$/, '')
  const shorter = undated.replace(/-[^-]*$/, '')
  const providers = [provider, prefix].filter(
    (id) => id !== undefined && priceList().findProvider({ providerId: id }) !== undefined,
  )
  return [path, path.slice(slash + 1), last, undated, shorter].flatMap((name) => [
    ...providers.map((providerId) => ({ name, providerId: providerId ?? '' })),
    { name },
  ])
}

/** Undefined for an unknown model, and where the list cannot apply its own entry: no answer is lost over its price. */
function priceOf(...args: Parameters<typeof calcPrice>): PriceCalculation | undefined {
  try {
    const price = priceList().calcPrice(...args)
    return price && Number.isFinite(price.total_price) ? price : undefined
  } catch {
    return undefined
  }
}

type PriceList = typeof import('@pydantic/genai-prices')

let loaded: PriceList | undefined
const load = createRequire(import.meta.url)

/** Loaded with the first answer of a model: the list is large, and nothing is paid before. */
function priceList(): PriceList {
  return (loaded ??= load('@pydantic/genai-prices') as PriceList)
}
