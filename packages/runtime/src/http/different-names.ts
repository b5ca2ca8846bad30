/** Counts names by their hashes. */
export class DifferentNames {
  readonly #max: number
  readonly #table: Uint32Array
  /** Nobody outside knows it, so nobody can choose names that share a hash. */
  readonly #seed = Math.floor(Math.random() * 0xffff_ffff)
  #count = 0

  constructor(max: number) {
    this.#max = max
    this.#table = new Uint32Array(2 ** Math.ceil(Math.log2(max * 2)))
  }

  isOneTooMany(bytes: Uint8Array, start: number, end: number): boolean {
    let hash = this.#seed
    for (let at = start; at < end; at++) hash = Math.imul(hash ^ bytes[at]!, 0x0100_0193)
    hash = (Math.imul(hash ^ (hash >>> 15), 0x2c1b_3c6d) ^ (hash >>> 12)) >>> 0 || 1 // 0 is an empty place
    const mask = this.#table.length - 1
    for (let place = hash & mask; ; place = (place + 1) & mask) {
      if (this.#table[place] === hash) return false
      if (this.#table[place] !== 0) continue
      this.#table[place] = hash
      return ++this.#count > this.#max
    }
  }
}
