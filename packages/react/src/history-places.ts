import type { Client, Input } from '@bureau/client'
import type { Message } from '@bureau/protocol'
import { indexOfPast, piecesOf } from './messages.ts'

type Place = { readonly at: number; readonly words: string }

/**
 * Where messages have their place in the history of a self-hosted agency, which the client keeps. What is answered anew, or
 * with other words, leaves it with all that came after it. A message whose run failed is not in there.
 */
export class HistoryPlaces {
  readonly #client: Client
  /** Where the history ended when a message was sent, by the id of the message. */
  readonly #sent = new Map<string, Place>()

  constructor(client: Client) {
    this.#client = client
  }

  /** A message is sent: what is in the history from its place on goes. */
  take(chat: string, message: { readonly id: string; readonly input: Input; readonly isRegenerated: boolean }): void {
    const { histories } = this.#client
    if (!histories) return
    const history = histories.get(chat) ?? []
    const words = wordsOf(message.input.message)
    const at = this.#placeOf(history, { ...message, words })
    if (at < history.length) histories.set(chat, history.slice(0, at))
    this.#sent.set(message.id, { at, words })
  }

  #placeOf(
    history: readonly Message[],
    { id, words, isRegenerated }: { readonly id: string; readonly words: string; readonly isRegenerated: boolean },
  ): number {
    const index = indexOfPast(id)
    const known = this.#sent.get(id) ?? (index === undefined ? undefined : { at: index, words })
    if (!known && !isRegenerated) return history.length
    const from = known?.at ?? history.findLastIndex(isAsked)
    // Of messages that were sent at the same time, another one may have come first.
    const found = history.findIndex(
      (item, at) => at >= from && isAsked(item) && wordsOf([item]) === (known?.words ?? words),
    )
    return found < 0 ? (known?.at ?? history.length) : found
  }
}

const isAsked = ({ role, callerAgent }: Message): boolean => role === 'user' && callerAgent == null

const wordsOf = (message: unknown): string =>
  piecesOf(message)
    .map(({ text = '' }) => text)
    .join('')
