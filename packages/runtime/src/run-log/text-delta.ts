import type { ModelEvent } from '@bureau/protocol'

const TEXT_DELTA = 'response.output_text.delta'

type Parsed = { readonly delta: string; readonly content_index?: unknown; readonly logprobs?: unknown }

/**
 * A piece of a message's text on its way to the log, to which the next pieces of the same part can be added.
 *
 * One piece stays the provider's JSON text as it came. Several become the last one with all their text.
 */
export class TextDelta {
  /** Equal for pieces of one content part of one item of one agent while it is in control. */
  readonly key: string
  #event: ModelEvent
  #parsed: Parsed
  #text: string
  #merged = false

  private constructor(event: ModelEvent, parsed: Parsed) {
    this.key = JSON.stringify([event.source.agent_run_id, event.item_id ?? null, parsed.content_index ?? null])
    this.#event = event
    this.#parsed = parsed
    this.#text = parsed.delta
  }

  /** Undefined: this event is something else. */
  static from(event: ModelEvent): TextDelta | undefined {
    if (event.kind !== TEXT_DELTA) return undefined
    const parsed = parseDelta(event.json)
    return parsed && new TextDelta(event, parsed)
  }

  get text(): string {
    return this.#text
  }

  /** Appends a later piece with the same key. */
  add(next: TextDelta): void {
    this.#text += next.#text
    this.#parsed = { ...next.#parsed, ...joinedLogprobs(this.#parsed.logprobs, next.#parsed.logprobs) }
    this.#event = next.#event
    this.#merged = true
  }

  /** Takes the first half of a surrogate pair off the end, if that is what the text ends with. */
  splitHalfPair(): TextDelta | undefined {
    if (!/[\ud800-\udbff]$/.test(this.#text)) return undefined
    const half = new TextDelta(this.#event, {
      ...this.#parsed,
      delta: this.#text.slice(-1),
      ...noLogprobs(this.#parsed),
    })
    half.#merged = true
    this.#text = this.#text.slice(0, -1)
    this.#merged = true
    return half
  }

  get event(): ModelEvent {
    if (!this.#merged) return this.#event
    return { ...this.#event, json: JSON.stringify({ ...this.#parsed, delta: this.#text }) }
  }
}

function parseDelta(json: string): Parsed | undefined {
  try {
    const parsed = JSON.parse(json) as Parsed | null
    return typeof parsed?.delta === 'string' ? parsed : undefined
  } catch {
    return undefined
  }
}

function joinedLogprobs(first: unknown, second: unknown): { logprobs?: unknown } {
  return Array.isArray(first) && Array.isArray(second) ? { logprobs: [...first, ...second] } : {}
}

function noLogprobs({ logprobs }: Parsed): { logprobs?: unknown } {
  return logprobs === undefined ? {} : { logprobs: [] }
}
