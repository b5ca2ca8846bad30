import { ERRORS, isFields, ServiceError } from '@bureau/protocol'
import { InvalidJson, JsonLimitExceeded, type JsonLimits, readJson, StringEnds } from '@bureau/runtime'
import { pointerOf, refusalOf } from './parse-input.ts'

/** Several times what any request needs: contexts of runs are at most 64 KiB, lists have a few hundred entries. */
const LIMITS: JsonLimits = { values: 100_000, names: 50_000, differentNames: 10_000 }

/** Names that reach the prototype of an object where code is careless. */
const PROTOTYPE_NAMES: readonly string[] = ['__proto__', 'constructor', 'prototype']

/** The member whose content is the caller's own data: it may have any names, on objects without a prototype. */
const DATA_MEMBER = 'user_context'

/**
 * Parses a JSON body that cannot harm: valid UTF-8, one object, bounded nesting and counts, no name twice, no prototype
 * names, no text that a database cannot store.
 *
 * @throws ServiceError `invalid_json`; `invalid_request` for too many names or values, U+0000 and unpaired surrogates.
 */
export function parseStrictJson(bytes: Buffer): Record<string, unknown> {
  const value = parseAnyStrictJson(bytes)
  if (isFields(value)) return value
  throw invalidJson('It is not an object')
}

/** The same, of any value. */
export function parseAnyStrictJson(bytes: Buffer): unknown {
  try {
    return readStrictJson(bytes)
  } catch (error) {
    if (error instanceof JsonLimitExceeded) {
      const path = error.path.map((part) => `/${part}`).join('')
      throw refusalOf([{ path, code: 'invalid_request', error: error.message }])
    }
    if (error instanceof InvalidJson) throw invalidJson(error.message)
    throw error
  }
}

function invalidJson(why: string): ServiceError {
  return new ServiceError('invalid_json', { message: `${ERRORS.invalid_json.message} ${why}.` })
}

function readStrictJson(bytes: Buffer): unknown {
  const { value, checked } = readJson(bytes, LIMITS)
  const duplicate = findDuplicate(bytes, checked.longStrings)
  if (duplicate !== undefined) throw new InvalidJson(`The name ${JSON.stringify(duplicate)} stands twice in one object`)
  const hasEscapes = bytes.includes('\\u')
  if (hasEscapes || PROTOTYPE_NAMES.some((name) => bytes.includes(name))) checkNames(value)
  const unstorable = hasEscapes ? wayToUnstorable(value) : undefined
  if (unstorable) {
    const error = 'text must not hold U+0000 or unpaired surrogates'
    throw refusalOf([{ path: pointerOf(unstorable), code: 'invalid_request', error }])
  }
  if (typeof value !== 'object' || value === null) return value
  const body = value as Record<string, unknown>
  if (DATA_MEMBER in body) body[DATA_MEMBER] = withoutPrototypes(body[DATA_MEMBER])
  return body
}

/**
 * The object that a text of the caller's is, as harmless as if it had come as `user_context` itself; undefined: any
 * other text, and one that would have been refused there.
 */
export function parseDataObject(text: string): Record<string, unknown> | undefined {
  try {
    const { [DATA_MEMBER]: data, ...more } = parseStrictJson(Buffer.from(`{"${DATA_MEMBER}":${text}}`))
    return isFields(data) && Object.keys(more).length === 0 ? data : undefined
  } catch {
    return undefined
  }
}

/** On valid JSON the answer is exact: a name that stands twice in one object. */
function findDuplicate(bytes: Buffer, longStrings: ReadonlyMap<number, number>): string | undefined {
  const names: (Set<string> | null)[] = []
  const ends = new StringEnds(bytes)
  let expectsName = false
  for (let at = 0; at < bytes.length; at++) {
    const code = bytes[at]!
    if (code === QUOTE) {
      const end = longStrings.get(at + 1) ?? ends.next(at + 1)
      const duplicate = expectsName ? addName(names.at(-1), bytes.toString('utf8', at, end + 1)) : undefined
      if (duplicate !== undefined) return duplicate
      expectsName = false
      at = end
    } else if (code === OPEN_OBJECT || code === OPEN_LIST) {
      names.push(code === OPEN_OBJECT ? new Set() : null)
      expectsName = code === OPEN_OBJECT
    } else if (code === CLOSE_OBJECT || code === CLOSE_LIST) names.pop()
    else if (code === COMMA) expectsName = names.at(-1) instanceof Set
  }
  return undefined
}

const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** Answers the name when it was there before. */
function addName(names: Set<string> | null | undefined, literal: string): string | undefined {
  const name = literal.includes('\\') ? unescape(literal) : literal.slice(1, -1)
  if (names?.has(name)) return name
  names?.add(name)
  return undefined
}

/** A literal that is not JSON makes the whole text fail later. */
function unescape(literal: string): string {
  try {
    return String(JSON.parse(literal))
  } catch {
    return literal
  }
}

function checkNames(value: unknown, top = true): void {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    if (!Array.isArray(value) && PROTOTYPE_NAMES.includes(name))
      throw new InvalidJson(`The name "${name}" is not allowed`)
    if (!(top && name === DATA_MEMBER)) checkNames(member, false)
  }
}

/** The way to the first text that no database stores, or to the object with such a name; undefined when there is none. */
function wayToUnstorable(value: unknown): readonly string[] | undefined {
  if (typeof value === 'string') return value.includes('\u0000') || !value.isWellFormed() ? [] : undefined
  if (typeof value !== 'object' || value === null) return undefined
  for (const [name, member] of Object.entries(value)) {
    if (wayToUnstorable(name)) return []
    const way = wayToUnstorable(member)
    if (way) return [name, ...way]
  }
  return undefined
}

function withoutPrototypes(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(withoutPrototypes)
  const data = Object.create(null) as Record<string, unknown>
  for (const [name, member] of Object.entries(value)) data[name] = withoutPrototypes(member)
  return data
}
