/**
 * A Map of what comes and goes with each request.
 *
 * V8 copies the table of a Map when it has grown full of deleted entries, and an old copy keeps all later ones, with every
 * object that was in them when they were copied, until a full collection. So what is deleted here is taken out of its
 * entry first. Keys are kept for as long, and therefore are not objects.
 */
export class BriefMap<Key extends string | number, Value extends object> {
  readonly #entries = new Map<Key, { value: Value | undefined }>()

  get size(): number {
    return this.#entries.size
  }

  has(key: Key): boolean {
    return this.#entries.has(key)
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key)?.value
  }

  set(key: Key, value: Value): void {
    this.#entries.set(key, { value })
  }

  delete(key: Key): void {
    const entry = this.#entries.get(key)
    if (!entry) return
    entry.value = undefined
    this.#entries.delete(key)
  }

  clear(): void {
    for (const key of this.#entries.keys()) this.delete(key)
  }

  values(): Value[] {
    return Array.from(this.#entries.values(), ({ value }) => value!)
  }
}
