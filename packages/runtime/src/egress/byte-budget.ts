/** Bytes that several transfers may use together, e.g. all attachments of one request. */
export class ByteBudget {
  #remainingBytes: number

  constructor(totalBytes: number) {
    this.#remainingBytes = totalBytes
  }

  /** Takes `bytes` from what is left; false when that was not enough. Once exhausted it stays exhausted. */
  take(bytes: number): boolean {
    this.#remainingBytes -= bytes
    return this.#remainingBytes >= 0
  }
}
