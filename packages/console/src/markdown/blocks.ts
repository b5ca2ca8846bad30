import { Lexer, type Token } from 'marked'
import remend from 'remend'

const OPTIONS = { gfm: true }

/**
 * The blocks of a text that grows at its end. What can no longer change is parsed once, and its blocks stay the same
 * objects: a view compares them by identity.
 */
export class GrowingBlocks {
  #text = ''
  #settled: readonly Token[] = []
  #settledLength = 0

  /** @param done - True: nothing follows. */
  read(text: string, done: boolean): readonly Token[] {
    if (!text.startsWith(this.#text)) this.#reset()
    this.#text = text
    const rest = text.slice(this.#settledLength)
    if (done) return [...this.#settled, ...Lexer.lex(rest, OPTIONS)]
    this.#settle(Lexer.lex(rest, OPTIONS))
    // Half a word of markup (`**bo`) is shown as what it is going to be.
    return [...this.#settled, ...Lexer.lex(remend(text.slice(this.#settledLength)), OPTIONS)]
  }

  /** The last two blocks may still become part of each other: a list goes on after an empty line. */
  #settle(tokens: readonly Token[]): void {
    const done = tokens.filter(({ type }) => type !== 'space').length > 2 ? tokens.slice(0, -2) : []
    if (done.length === 0) return
    this.#settled = [...this.#settled, ...done]
    this.#settledLength += done.reduce((sum, { raw }) => sum + raw.length, 0)
  }

  #reset(): void {
    this.#settled = []
    this.#settledLength = 0
  }
}
