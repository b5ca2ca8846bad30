import { ServiceError } from '@bureau/protocol'

const MAX_NESTING = 64
const BYTE_ORDER_MARK = '\ufeff'
/** Names that reach the prototype of an object where code is careless. */
const PROTOTYPE_NAMES: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

/** The member whose content is the caller's own data: it may have any names, on objects without a prototype. */
const DATA_MEMBER = 'user_context'

/**
 * Parses a JSON body that cannot harm: valid UTF-8, one object, bounded nesting, no name twice, no prototype names, no
 * text that a database cannot store.
 *
 * @throws ServiceError `invalid_json`; `invalid_request` for U+0000 and unpaired surrogates.
 */
export function parseStrictJson(bytes: Uint8Array): Record<string, unknown> {
  const text = decodeUtf8(bytes)
  if (text.startsWith(BYTE_ORDER_MARK)) throw invalid('The body begins with a byte order mark: send UTF-8 without one.')
  const duplicate = scan(text) // before parsing: the depth is bounded from here on
  const value = parse(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid('The body must be one object.')
  if (duplicate !== undefined) throw invalid(`The name ${JSON.stringify(duplicate)} stands twice in one object.`)
  const body = value as Record<string, unknown>
  if (/__proto__|constructor|prototype|\\u/.test(text)) checkNames(body)
  if (/\\u0000|\\u[dD][89a-fA-F]/.test(text)) checkStrings(body)
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
    const isObject = typeof data === 'object' && data !== null && !Array.isArray(data)
    return isObject && Object.keys(more).length === 0 ? (data as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw invalid('The body is not valid UTF-8.')
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid()
  }
}

/**
 * Walks through the text once without recursion and bounds its nesting. On valid JSON the answer is exact: a name that
 * stands twice in one object.
 */
function scan(text: string): string | undefined {
  const names: (Set<string> | null)[] = []
  let expectsName = false
  let duplicate: string | undefined
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      const end = endOfString(text, at)
      if (expectsName) duplicate ??= addName(names.at(-1), text.slice(at, end + 1))
      expectsName = false
      at = end
    } else if (code === OPEN_OBJECT || code === OPEN_LIST) {
      if (names.push(code === OPEN_OBJECT ? new Set() : null) > MAX_NESTING)
        throw invalid('The body is nested too deep.')
      expectsName = code === OPEN_OBJECT
    } else if (code === CLOSE_OBJECT || code === CLOSE_LIST) names.pop()
    else if (code === COMMA) expectsName = names.at(-1) instanceof Set
  }
  return duplicate
}

const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const BACKSLASH = 0x5c

/** Answers the name when it was there before. */
function addName(names: Set<string> | null | undefined, literal: string): string | undefined {
  const name = literal.includes('\\') ? unescape(literal) : literal.slice(1, -1)
  if (names?.has(name)) return name
  names?.add(name)
  return undefined
}

/** A literal that is no JSON makes the whole text fail later. */
function unescape(literal: string): string {
  try {
    return String(JSON.parse(literal))
  } catch {
    return literal
  }
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; ;) {
    const quote = text.indexOf('"', at)
    if (quote < 0) return text.length
    let slashes = 0
    while (text.charCodeAt(quote - 1 - slashes) === BACKSLASH) slashes++
    if (slashes % 2 === 0) return quote
    at = quote + 1
  }
}

function checkNames(value: unknown, top = true): void {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    if (!Array.isArray(value) && PROTOTYPE_NAMES.has(name)) throw invalid(`The name "${name}" is not allowed.`)
    if (!(top && name === DATA_MEMBER)) checkNames(member, false)
  }
}

function checkStrings(value: unknown): void {
  if (typeof value === 'string' && (value.includes('\u0000') || !value.isWellFormed())) {
    throw new ServiceError('invalid_request', { message: 'Text must not hold U+0000 or unpaired surrogates.' })
  }
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    checkStrings(name)
    checkStrings(member)
  }
}

function withoutPrototypes(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(withoutPrototypes)
  const data = Object.create(null) as Record<string, unknown>
  for (const [name, member] of Object.entries(value)) data[name] = withoutPrototypes(member)
  return data
}

const invalid = (message?: string): ServiceError => new ServiceError('invalid_json', message ? { message } : {})
