import type { FastifyInstance } from 'fastify'
import { ServiceError } from '@bureau/protocol'

const MAX_NESTING = 64
const BYTE_ORDER_MARK = '\ufeff'

/** A body that is not JSON, and where it stops being so. */
export class InvalidJson extends Error {
  override readonly name = 'InvalidJson'
  /** Characters from the start of the body; undefined when the parser does not say. */
  readonly offset: number | undefined

  constructor(message: string, offset?: number) {
    super(message)
    this.offset = offset
  }
}

/**
 * Reads JSON bodies. Hostile ones are refused before they are parsed (nesting) or used (`__proto__` members).
 *
 * Bodies of any other content type are handed on as null, so that the route can say what it wants.
 */
export function readJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(/^application\/(?:[\w.-]+\+)?json\b/i, { parseAs: 'string' }, (request, body, done) => {
    if (request.headers['content-encoding'] && request.headers['content-encoding'] !== 'identity') {
      return done(new ServiceError('invalid_content_type'))
    }
    try {
      done(null, parseJson(body as string))
    } catch (error) {
      done(error as Error)
    }
  })
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, _body, done) => done(null, null))
}

/** @throws InvalidJson */
export function parseJson(text: string): unknown {
  if (text.startsWith(BYTE_ORDER_MARK))
    throw new InvalidJson('JSON begins with a byte order mark: send UTF-8 without one', 0)
  if (nestingOf(text) > MAX_NESTING) throw new InvalidJson(`JSON is nested deeper than ${MAX_NESTING} levels`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    const offset = /position (\d+)/.exec((error as Error).message)?.[1]
    throw new InvalidJson('JSON decode error', offset === undefined ? text.length : Number(offset))
  }
  if (/__proto__|\\u005f/i.test(text)) refusePrototypes(value)
  return value
}

/** Deepest nesting of objects and lists, strings skipped; counted without recursion. */
function nestingOf(text: string): number {
  let depth = 0
  let deepest = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x22) at = endOfString(text, at)
    else if (code === 0x7b || code === 0x5b) deepest = Math.max(deepest, ++depth)
    else if (code === 0x7d || code === 0x5d) depth--
  }
  return deepest
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; ;) {
    const quote = text.indexOf('"', at)
    if (quote < 0) return text.length
    let slashes = 0
    while (text.charCodeAt(quote - 1 - slashes) === 0x5c) slashes++
    if (slashes % 2 === 0) return quote
    at = quote + 1
  }
}

function refusePrototypes(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value) && Object.hasOwn(value, '__proto__')) throw new InvalidJson('JSON has a "__proto__" member')
  for (const member of Object.values(value)) refusePrototypes(member)
}
