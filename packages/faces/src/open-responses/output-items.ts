import type { WireItem } from '@bureau/protocol'

/** An item of the output, and how the model's provider names it. */
export type OutputItem = {
  /** Its place in the output of the whole response. */
  readonly index: number
  readonly id: string
  /** The provider's id, where ours is another. */
  readonly renamed: string | undefined
}

/**
 * The output of one response. A run asks its models several times, and each of their answers counts its items from 0 and
 * may name them alike; here they have one place and one id each.
 */
export class OutputItems {
  readonly #prefix: string
  readonly #items: WireItem[] = []
  readonly #finished = new Set<number>()
  readonly #ids = new Set<string>()

  /** @param responseId - `resp_…` */
  constructor(responseId: string) {
    this.#prefix = responseId.replace(/^resp_/, '')
  }

  /** Those that are finished. */
  get finished(): readonly WireItem[] {
    return this.#items.filter((_, index) => this.#finished.has(index))
  }

  isFinished({ index }: OutputItem): boolean {
    return this.#finished.has(index)
  }

  /** The item gets the next place. */
  add(item: WireItem): OutputItem {
    const index = this.#items.length
    const given = typeof item.id === 'string' && item.id !== '' ? item.id : undefined
    const isFree = given !== undefined && !this.#ids.has(given)
    // The same for every reader: it is made of nothing but the response and the place.
    const id = isFree ? given : `${prefixOf(item.type)}_${this.#prefix}${index}`
    this.#ids.add(id)
    this.#items.push({ ...item, id })
    return { index, id, renamed: isFree ? undefined : given }
  }

  /** The item as it has become. */
  finish({ index, id }: OutputItem, item: WireItem): WireItem {
    const finished = { ...item, id }
    this.#items[index] = finished
    this.#finished.add(index)
    return finished
  }
}

const PREFIXES: ReadonlyMap<string | undefined, string> = new Map([
  ['message', 'msg'],
  ['reasoning', 'rs'],
  ['function_call', 'fc'],
])

const prefixOf = (type: string | undefined): string => PREFIXES.get(type) ?? 'item'
