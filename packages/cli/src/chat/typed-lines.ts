import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'

/**
 * Lines that a person types, or that a file has. What is typed while no line is read, because an answer is being shown, is kept
 * and shown when its turn comes.
 */
export class TypedLines {
  readonly #output = new PromptOutput()
  readonly #lines = createInterface({
    input: process.stdin,
    output: this.#output,
    terminal: process.stdin.isTTY && process.stderr.isTTY,
  })
  /** What nobody has read so far. */
  readonly #early: string[] = []
  readonly #terminalType: string | undefined
  #reader: ((line: string | undefined) => void) | undefined
  #hasEnded = false

  /** @param terminalType - `TERM` of the environment. */
  constructor(terminalType: string | undefined) {
    this.#terminalType = terminalType
    this.#output.isQuiet = this.#isDrawn
    this.#lines.on('line', (line) => (this.#reader ? this.#reader(line) : this.#early.push(line)))
    this.#lines.once('close', () => {
      this.#hasEnded = true
      // The shell goes on in a line of its own.
      if (this.#reader && this.isPerson) process.stderr.write('\n')
      this.#reader?.(undefined)
    })
  }

  get isPerson(): boolean {
    return this.#lines.terminal
  }

  /** The next line; undefined at the end of the input. */
  async read(prompt: string): Promise<string | undefined> {
    const early = this.#early.shift()
    if (early === undefined) return this.#prompt(prompt)
    process.stderr.write(this.#isDrawn ? `${prompt}${early}\n` : prompt)
    return early
  }

  /** The same for a question: what a person typed before it was asked does not answer it. `text` is put into the line, to be changed. */
  async readAnswer(question: string, text = ''): Promise<string | undefined> {
    return this.isPerson ? this.#prompt(question, text) : this.read(question)
  }

  /** Calls `stop` when a person presses Ctrl-C while `work` is done. At all other times Ctrl-C ends the input. */
  async stoppable<Value>(stop: () => void, work: () => Promise<Value>): Promise<Value> {
    this.#lines.once('SIGINT', stop)
    try {
      return await work()
    } finally {
      this.#lines.off('SIGINT', stop)
    }
  }

  async #prompt(prompt: string, text = ''): Promise<string | undefined> {
    if (this.#hasEnded) return undefined
    this.#output.isQuiet = false
    const next = new Promise<string | undefined>((resolve) => {
      this.#reader = (line) => {
        this.#reader = undefined // The next line may be in the same piece of a file.
        this.#output.isQuiet = this.#isDrawn
        resolve(line)
      }
    })
    this.#lines.setPrompt(prompt)
    this.#lines.prompt(true)
    if (text !== '') this.#lines.write(text)
    return next
  }

  /** The line is drawn anew at each key and each change of the window, over whatever is in the place of the prompt. */
  get #isDrawn(): boolean {
    return this.isPerson && this.#terminalType !== 'dumb'
  }
}

/** The terminal, as long as a line is read from it. */
class PromptOutput extends Writable {
  isQuiet = false

  /** With 0, some terminals say that they do not know. A line that nobody sees has no rows that were to be erased later. */
  get columns(): number {
    return (!this.isQuiet && process.stderr.columns) || Number.POSITIVE_INFINITY
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (!this.isQuiet) process.stderr.write(chunk)
    done()
  }
}
