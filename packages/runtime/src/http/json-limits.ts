import { DifferentNames } from './different-names.ts'
import { InvalidJson, JsonLimitExceeded } from './invalid-json.ts'
import { StringEnds } from './string-ends.ts'

/** What a JSON text may hold, whatever it says. Values are items of lists and members of objects, at any depth. */
export type JsonLimits = {
  readonly values: number
  readonly names: number
  /** Names that differ: each new kind of object costs a parser more than a hundred more of a known one. */
  readonly differentNames: number
}

/** What is known of a text that was looked at. */
type CheckedJson = {
  readonly mayHavePrototypes: boolean
  readonly longStrings: ReadonlyMap<number, number>
}

/** Histories of tens of thousands of items fit. */
const JSON_LIMITS: JsonLimits = { values: 500_000, names: 150_000, differentNames: 3_000 }

const MAX_NESTING = 64
const LONG_STRING = 4_096
const MAX_NAME_BYTES = 65_536
const MAX_NUMBER_LENGTH = 1_000
const MAX_SPACE = 8_388_608
/**
 * A parser takes much longer for an escape than for a letter. Fourteen megabytes of JSON that is sent as a text fit, which is
 * more than models read.
 */
const MAX_ESCAPES = 2_000_000

/**
 * Looks at every byte of a JSON text once, before anything is made of it, and counts. Whether it is JSON at all is for the
 * parser to say.
 *
 * @returns Whether there may be a `__proto__` among the names, and where long strings end, by where they start: who reads
 *   the text again can leave them out.
 * @throws InvalidJson nested deeper than 64 levels, or it begins with a byte order mark. JsonLimitExceeded
 */
export function checkJsonLimits(bytes: Uint8Array, limits: JsonLimits = JSON_LIMITS): CheckedJson {
  if (BYTE_ORDER_MARK.every((byte, at) => bytes[at] === byte)) {
    throw new InvalidJson('JSON begins with a byte order mark: send UTF-8 without one', 0)
  }
  const scan = new JsonScan(bytes, limits)
  scan.run()
  return scan
}

const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf]
const SPACE = 0x20
const QUOTE = 0x22
const COMMA = 0x2c
const MINUS = 0x2d
const DIGIT_0 = 0x30
const DIGIT_9 = 0x39
const OPEN_LIST = 0x5b
const BACKSLASH = 0x5c
const CLOSE_LIST = 0x5d
const UNDERSCORE = 0x5f
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

class JsonScan {
  readonly #bytes: Uint8Array
  readonly #limits: JsonLimits
  readonly #different: DifferentNames | undefined
  readonly #ends: StringEnds
  mayHavePrototypes = false
  readonly longStrings = new Map<number, number>()
  #space = 0
  #values = 0
  #names = 0
  #strings = 0
  #expectsName = false
  #depth = 0
  // Of the containers around the present place, by depth.
  readonly #isObject = new Uint8Array(MAX_NESTING + 1)
  readonly #index = new Uint32Array(MAX_NESTING + 1)
  readonly #nameStart = new Uint32Array(MAX_NESTING + 1)
  readonly #nameEnd = new Uint32Array(MAX_NESTING + 1)

  constructor(bytes: Uint8Array, limits: JsonLimits) {
    this.#bytes = bytes
    this.#limits = limits
    this.#ends = new StringEnds(bytes)
    // A name takes five bytes at least: `"":1,`.
    if (bytes.length > 5 * limits.differentNames) this.#different = new DifferentNames(limits.differentNames)
  }

  run(): void {
    const bytes = this.#bytes
    for (let at = 0; at < bytes.length; at++) {
      const code = bytes[at]!
      if (code <= SPACE) at = this.#skipSpace(at)
      else if (code === QUOTE) at = this.#readString(at + 1)
      else if (code === COMMA) this.#nextValue()
      else if (code === OPEN_OBJECT || code === OPEN_LIST) this.#open(code === OPEN_OBJECT)
      else if (code === CLOSE_OBJECT || code === CLOSE_LIST) this.#close()
      else if (code === MINUS || (code >= DIGIT_0 && code <= DIGIT_9)) at = this.#readNumber(at)
    }
  }

  #open(isObject: boolean): void {
    this.#countValue()
    if (++this.#depth > MAX_NESTING) throw new InvalidJson(`JSON is nested deeper than ${MAX_NESTING} levels`)
    this.#isObject[this.#depth] = isObject ? 1 : 0
    this.#index[this.#depth] = 0
    this.#nameEnd[this.#depth] = 0
    this.#expectsName = isObject
  }

  #close(): void {
    if (this.#depth > 0) this.#depth--
    this.#expectsName = false
  }

  #nextValue(): void {
    this.#countValue()
    this.#index[this.#depth]!++
    this.#expectsName = this.#isObject[this.#depth] === 1
  }

  #countValue(): void {
    if (++this.#values > this.#limits.values) throw this.#exceeded(`more than ${this.#limits.values} values`)
  }

  /** Answers the place of its last byte, as the next two do. */
  #skipSpace(start: number): number {
    const bytes = this.#bytes
    let end = start + 1
    while (end < bytes.length && bytes[end]! <= SPACE) end++
    this.#space += end - start
    if (this.#space > MAX_SPACE) throw this.#exceeded(`more than ${MAX_SPACE} bytes of white space`)
    return end - 1
  }

  #readString(start: number): number {
    const end = this.#ends.next(start)
    if (this.#ends.escapes > MAX_ESCAPES) throw this.#exceeded(`more than ${MAX_ESCAPES} escapes`)
    if (end - start > LONG_STRING) this.longStrings.set(start, end)
    const { values, names } = this.#limits
    if (++this.#strings > values + names) throw this.#exceeded(`more than ${values + names} strings`)
    if (this.#expectsName) this.#countName(start, end)
    return end
  }

  #readNumber(start: number): number {
    let end = start
    while (isOfNumber(this.#bytes[end + 1])) end++
    if (end - start < MAX_NUMBER_LENGTH) return end
    throw this.#exceeded(`a number of more than ${MAX_NUMBER_LENGTH} characters`)
  }

  #countName(start: number, end: number): void {
    this.#expectsName = false
    if (end - start > MAX_NAME_BYTES) throw this.#exceeded(`a name of more than ${MAX_NAME_BYTES} bytes`)
    if (++this.#names > this.#limits.names) throw this.#exceeded(`more than ${this.#limits.names} names`)
    if (this.#different?.isOneTooMany(this.#bytes, start, end)) {
      throw this.#exceeded(`more than ${this.#limits.differentNames} different names`)
    }
    if (mayBePrototype(this.#bytes, start, end)) this.mayHavePrototypes = true
    this.#nameStart[this.#depth] = start
    this.#nameEnd[this.#depth] = end
  }

  #exceeded(what: string): JsonLimitExceeded {
    return new JsonLimitExceeded(`The body has ${what}: send fewer or shorter ones, or send them as text`, this.#path())
  }

  #path(): (string | number)[] {
    const path: (string | number)[] = []
    for (let depth = 1; depth <= Math.min(this.#depth, 3); depth++) {
      const [start, end] = [this.#nameStart[depth]!, this.#nameEnd[depth]!]
      if (this.#isObject[depth] === 0) path.push(this.#index[depth]!)
      else if (end > 0) path.push(shownName(this.#bytes.subarray(start, end)))
    }
    return path
  }
}

/** An underscore may be written as an escape. */
function mayBePrototype(bytes: Uint8Array, start: number, end: number): boolean {
  return end - start >= '__proto__'.length && (bytes[start] === UNDERSCORE || bytes[start] === BACKSLASH)
}

/** Digits, signs, the point and the exponent. */
function isOfNumber(code: number | undefined): boolean {
  if (code === undefined) return false
  return (
    (code >= DIGIT_0 && code <= DIGIT_9) || code === MINUS || code === 0x2b || code === 0x2e || (code | 0x20) === 0x65
  )
}

function shownName(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes.subarray(0, 100))
  return bytes.length > 100 ? `${text}…` : text
}
