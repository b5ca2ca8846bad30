import type { WireItem } from '@bureau/protocol'
import { requireFewItems } from '../models/model-error.ts'
import { newWireId } from '../models/response-items.ts'

/** An item as it is kept, its place in the answer, and the call id that the provider gave it. */
type Finished = { readonly place: number; readonly item: WireItem; readonly callId: string | undefined }

/** How the provider says an item. */
export type ItemPosition = { readonly place?: number | undefined; readonly callId?: string | undefined }

type Likeness = (finished: Finished, item: WireItem, place: number) => boolean

/** How an item of the finished response is found among those that came before it, the surest way first. */
const LIKENESSES: readonly Likeness[] = [
  ({ item: { id } }, item) => Boolean(id) && id === item.id,
  ({ callId }, item) => Boolean(callId) && callId === item.call_id,
  (finished, _item, place) => finished.place === place,
  () => true,
]

/**
 * The items of one answer. A provider says each of them twice, by itself and in the finished response, and not all do so
 * under one id, or under any: then the place in the answer tells which is which.
 */
export class AnswerItems {
  readonly #finished: Finished[] = []
  readonly #isTaken: (item: WireItem) => boolean
  /** Call ids as they are kept, by place and id as the provider says them. */
  readonly #callIds = new Map<string, string>()

  /** @param isTaken - Whether an earlier call of the conversation, or one of another agent, has the id of this one. */
  constructor(isTaken: (item: WireItem) => boolean) {
    this.#isTaken = isTaken
  }

  get finished(): WireItem[] {
    return this.#finished.map(({ item }) => item)
  }

  /** The item as it is kept: a call gets another id when it is taken, which some servers let happen, and its arguments as text. */
  named(given: WireItem, place: number = this.#finished.length): WireItem {
    const item = withArgumentsAsText(given)
    const { call_id: callId } = item
    if (typeof callId !== 'string' || item.type?.endsWith('_output')) return item
    const key = `${place} ${callId}`
    const isNew = !this.#callIds.has(key)
    const clashes = isNew && (this.#isTaken(item) || [...this.#callIds.values()].includes(callId))
    if (isNew) requireFewItems(this.#callIds.set(key, clashes ? newWireId('call') : callId).size)
    const kept = this.#callIds.get(key)!
    return kept === callId ? item : { ...item, call_id: kept }
  }

  /** Keeps an item in the form that `named` gave it. False: it is known. */
  finish(item: WireItem, { place = this.#finished.length, callId }: ItemPosition): boolean {
    // `named` has seen to it that a call has an id of its own.
    const id = item.call_id || item.id
    const isKnown = ({ item: other }: Finished): boolean =>
      other === item || (Boolean(id) && other.type === item.type && (other.call_id || other.id) === id)
    if (this.#finished.some(isKnown)) return false
    requireFewItems(this.#finished.push({ place, item, callId }))
    return true
  }

  /** The items of the finished response, each in the form in which it came first. */
  settled(output: readonly WireItem[]): WireItem[] {
    requireFewItems(output.length)
    const unused = new Set(this.#finished)
    const found = new Map<number, WireItem>()
    for (const isLike of LIKENESSES) {
      for (const [place, item] of output.entries()) {
        if (found.has(place)) continue
        const same = [...unused].find((other) => other.item.type === item.type && isLike(other, item, place))
        if (!same) continue
        unused.delete(same)
        found.set(place, same.item)
      }
    }
    return output.map((item, place) => found.get(place) ?? this.named(item, place))
  }
}

/** Some servers send an object; to everybody else the arguments of a call are its text. */
function withArgumentsAsText(item: WireItem): WireItem {
  const { arguments: args } = item
  if (item.type !== 'function_call' || typeof args !== 'object' || args === null) return item
  return { ...item, arguments: JSON.stringify(args) }
}
