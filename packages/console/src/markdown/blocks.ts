import { Lexer, type Token } from 'marked'
import remend from 'remend'

const OPTIONS = { gfm: true }

/** Quotations and lists within each other, more of them than there is room for: by their marks, or by how far they are indented. */
const TOO_DEEP = /^(?:(?:[ \t]*>|[ \t]*[-*+][ \t]|[ \t]*\d+[.)][ \t]){50}|[ \t]{200,}(?:>|[-*+][ \t]|\d+[.)][ \t]))/m

/** What cannot be read as Markdown, or would take more than the page has, is one block of text. */
function lex(text: string): Token[] {
  try {
    if (!TOO_DEEP.test(text)) return Lexer.lex(text, OPTIONS)
  } catch {
    // Its parts are within each other deeper than the parser can go.
  }
  return [{ type: 'plain', raw: text }]
}

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
    if (done) return [...this.#settled, ...lex(rest)]
    this.#settle(lex(rest))
    // Half a word of markup (`**bo`) is shown as what it is going to be.
    return [...this.#settled, ...lex(remend(text.slice(this.#settledLength)))]
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
