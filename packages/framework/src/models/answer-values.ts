import type { ResponseUsage } from './response-events.ts'

/** The call ids of a conversation. A model that counts from zero in each answer gets other ids. */
export class CallIds {
  readonly #used: Set<string>

  constructor(used: Iterable<string>) {
    this.#used = new Set(used)
  }

  /** The id, if it is one and no earlier call has it. */
  take(id: string | undefined): { readonly callId?: string } {
    if (id === undefined || id === '' || this.#used.has(id)) return {}
    this.#used.add(id)
    return { callId: id }
  }
}

type TokenCounts = {
  readonly input: number
  readonly cached: number
  readonly written: number
  readonly output: number
  readonly reasoning: number
  /** Default: input and output together. */
  readonly total?: number
}

/** Tokens in the words of the Responses API. */
export function responseUsage({ input, cached, written, output, reasoning, total = 0 }: TokenCounts): ResponseUsage {
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached, ...(written > 0 && { cache_write_tokens: written }) },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: total || input + output,
  }
}

/** A number of tokens; 0 for anything else. */
export function countOf(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.floor(value) : 0
}

/** Whether the arguments of a call are whole. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
