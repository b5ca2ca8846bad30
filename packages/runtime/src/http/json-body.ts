import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import { ServiceError } from '@bureau/protocol'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { InvalidJson } from './invalid-json.ts'
import { checkJsonLimits, type JsonLimits } from './json-limits.ts'
import type { BodyReceiver } from './receive-body.ts'
import { StringEnds } from './string-ends.ts'

type JsonBodies = {
  /** Content types that are read as JSON. */
  readonly types: RegExp
  readonly receiver: BodyReceiver
  /** @param body - Received in full; empty when nothing was sent. */
  readonly parse: (body: Buffer, request: FastifyRequest) => unknown
  /** Whether a body of another content type is read to its end and handed on as null, or refused at once. */
  readonly others: 'null' | 'refused'
}

/** Receives bodies and parses those that are JSON. What is compressed could be any size, and is refused. */
export function readJsonBodies(app: FastifyInstance, { types, receiver, parse, others }: JsonBodies): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(types, async (request: FastifyRequest, payload: Readable) => {
    if (request.is404) return undefined // What is wrong is the address, whatever was sent to it.
    const body = await receiver.receive(request, payload)
    requirePlain(request)
    return parse(body, request)
  })
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: Readable) => {
    if (request.is404) return undefined
    if (others === 'refused') throw new ServiceError('invalid_content_type')
    await receiver.receive(request, payload)
    return null
  })
}

/** @throws ServiceError `invalid_content_type` */
export function requirePlain({ headers }: FastifyRequest): void {
  const encoding = headers['content-encoding']
  if (encoding && encoding.toLowerCase() !== 'identity') throw new ServiceError('invalid_content_type')
}

type ReadJson = { readonly value: unknown; readonly checked: ReturnType<typeof checkJsonLimits> }

/** What a text says, and what was found when it was checked, before anything was made of it. @throws InvalidJson, JsonLimitExceeded */
export function readJson(bytes: Buffer, limits?: JsonLimits): ReadJson {
  const checked = checkJsonLimits(bytes, limits)
  // Each byte that has to be replaced takes as long as a hundred others.
  if (!isUtf8(bytes)) throw new InvalidJson('JSON is not valid UTF-8')
  const text = bytes.toString()
  try {
    return { value: JSON.parse(text), checked }
  } catch (error) {
    const offset = offsetOf((error as Error).message, bytes) ?? text.length
    throw new InvalidJson(decodeError(text, offset), offset)
  }
}

/** Where the parser has stopped, in characters; undefined when it came to the end. */
function offsetOf(message: string, bytes: Buffer): number | undefined {
  const position = /position (\d+)/.exec(message)?.[1]
  if (position !== undefined) return Number(position)
  const at = missingValueAt(bytes)
  return at === undefined ? undefined : bytes.toString('utf8', 0, at).length
}

const QUOTE = 0x22
const LIST = 0x5b
const LIST_END = 0x5d
/** Tables of bytes, because a body may have millions of them. */
const IS_SPACE = tableOf(' \t\r\n')
const PRECEDES_VALUE = tableOf('\0[:,')
const BEGINS_VALUE = tableOf('"{[-0123456789')

function tableOf(characters: string): Uint8Array {
  const table = new Uint8Array(256)
  for (const code of Buffer.from(characters)) table[code] = 1
  return table
}

/** The byte where a value should begin and something else stands: `None`, `'x'`, a comma too many. Here the parser names no place. */
function missingValueAt(bytes: Buffer): number | undefined {
  const ends = new StringEnds(bytes)
  let before = 0
  for (let at = 0; at < bytes.length; at++) {
    const code = bytes[at]!
    if (IS_SPACE[code]) continue
    const isEmptyList = before === LIST && code === LIST_END
    if (PRECEDES_VALUE[before] && !isEmptyList && !beginsValue(bytes, at)) return at
    if (code === QUOTE) at = ends.next(at + 1)
    before = code
  }
  return undefined
}

function beginsValue(bytes: Buffer, at: number): boolean {
  return BEGINS_VALUE[bytes[at]!] === 1 || /^(?:true|false|null)/.test(bytes.toString('latin1', at, at + 5))
}

function decodeError(text: string, offset: number): string {
  if (text.trim() === '') return 'JSON decode error: the body is empty'
  if (offset >= text.length) return 'JSON decode error: the body ends too early'
  const lines = text.slice(0, offset).split('\n')
  return `JSON decode error at line ${lines.length}, column ${lines.at(-1)!.length + 1}`
}

/** Refuses `__proto__` members too, which reach the prototype of an object where code is careless. @throws InvalidJson, JsonLimitExceeded */
export function parseJson(bytes: Buffer): unknown {
  const { value, checked } = readJson(bytes)
  if (checked.mayHavePrototypes) refusePrototypes(value)
  return value
}

function refusePrototypes(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value) && Object.hasOwn(value, '__proto__')) throw new InvalidJson('JSON has a "__proto__" member')
  for (const member of Object.values(value)) refusePrototypes(member)
}
