const HEAD_END = Buffer.from('\r\n\r\n')
const NEWLINE = 0x0a

/**
 * Reads one HTTP response with a chunked body after another from the pieces of a connection. It checks little and
 * copies nothing: it runs once per token on the core of the load generator.
 */
export class ChunkedReader {
  /** Status of the current response, 0 before its head is complete. */
  status = 0
  #head: Buffer = Buffer.alloc(0)
  #sizeLine = ''
  /** Bytes of the current chunk, with its line end, that are still to come; -1 while a size line is read. */
  #left = -1
  #lastChunk = false

  /**
   * Gives body bytes to `onBody`. Returns true when the response is complete.
   *
   * A response that is not chunked only shows its status; the connection is then of no further use.
   */
  push(bytes: Buffer, onBody: (bytes: Buffer) => void): boolean {
    let at = this.status === 0 ? this.#readHead(bytes) : 0
    while (at >= 0 && at < bytes.length) {
      if (this.#left < 0) at = this.#readSize(bytes, at)
      else at = this.#readChunk(bytes, at, onBody)
      if (this.#lastChunk && this.#left === 0) return true
    }
    return false
  }

  /** Prepares for the next response on the same connection. */
  reset(): void {
    this.status = 0
    this.#head = Buffer.alloc(0)
    this.#left = -1
    this.#lastChunk = false
  }

  #readHead(bytes: Buffer): number {
    const before = this.#head.length
    this.#head = before === 0 ? bytes : Buffer.concat([this.#head, bytes])
    const end = this.#head.indexOf(HEAD_END)
    if (end < 0) return -1
    this.status = Number(this.#head.toString('latin1', 9, 12))
    return end + HEAD_END.length - before
  }

  #readSize(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(NEWLINE, at)
    this.#sizeLine += bytes.toString('latin1', at, end < 0 ? bytes.length : end)
    if (end < 0) return -1
    const size = Number.parseInt(this.#sizeLine, 16)
    this.#sizeLine = ''
    this.#lastChunk = size === 0
    this.#left = size + 2
    return end + 1
  }

  #readChunk(bytes: Buffer, at: number, onBody: (bytes: Buffer) => void): number {
    const taken = Math.min(this.#left, bytes.length - at)
    const content = Math.min(taken, this.#left - 2)
    if (content > 0) onBody(bytes.subarray(at, at + content))
    this.#left -= taken
    if (this.#left === 0 && !this.#lastChunk) this.#left = -1
    return at + taken
  }
}
