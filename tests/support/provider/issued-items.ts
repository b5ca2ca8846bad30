import type { JsonObject } from './json-object.ts'

type Issued = {
  readonly item: JsonObject
  readonly stored: boolean
  /** The reasoning item right before it in the same answer. */
  readonly reasoningId: string | null
}

/** What the provider has answered so far: later requests are checked against it, as the real service does. */
export class IssuedItems {
  readonly #byId = new Map<string, Issued>()
  readonly #keysByType = new Map<string, Set<string>>()

  /** @param stored - False for a request with `store: false`. */
  remember(output: readonly JsonObject[], stored: boolean): void {
    for (const [index, item] of output.entries()) {
      const before = output[index - 1]
      const reasoningId = before?.['type'] === 'reasoning' ? String(before['id']) : null
      this.#byId.set(String(item['id']), { item, stored, reasoningId })
      const keys = this.#keysByType.get(String(item['type'])) ?? new Set()
      for (const key of Object.keys(item)) keys.add(key)
      this.#keysByType.set(String(item['type']), keys)
    }
  }

  find(id: unknown): Issued | undefined {
    return typeof id === 'string' ? this.#byId.get(id) : undefined
  }

  /** Keys of a type that only this provider knows; undefined when it never sent such an item. */
  keysOf(type: string): ReadonlySet<string> | undefined {
    return this.#keysByType.get(type)
  }
}
