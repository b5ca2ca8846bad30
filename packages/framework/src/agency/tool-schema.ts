import { z } from 'zod'

type FunctionSchema = {
  /** JSON Schema of an object. */
  readonly parameters: Readonly<Record<string, unknown>>
  /** True: the schema keeps the rules of strict functions, so providers make sure that calls fit it. */
  readonly strict: boolean
}

/** What a function takes, as JSON Schema; with `added` properties, all of them required, before its own. */
export function functionSchema(
  parameters: z.ZodObject,
  added: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {},
): FunctionSchema {
  const made = z.toJSONSchema(parameters, { target: 'draft-7', io: 'input', unrepresentable: 'any' })
  const { $schema: _, properties, required = [], ...rest } = made
  const names = Object.keys(added)
  const schema = { ...rest, properties: { ...added, ...properties }, required: [...names, ...required] }
  const strict = isStrict(schema)
  return { parameters: { ...schema, ...(strict && { additionalProperties: false }) }, strict }
}

/** What JSON has no values of, so that a model can never send one. */
const NOT_IN_JSON = new Set(['date', 'bigint', 'map', 'set', 'symbol'])

/**
 * What a schema asks for that a model cannot send, and where; undefined: nothing. A union may have another form that it can
 * send, and a conversion may make such values of others: neither is looked into.
 */
export function unsendable(schema: z.core.$ZodType, path = '', seen = new Set<unknown>()): string | undefined {
  if (seen.has(schema)) return undefined
  seen.add(schema)
  const { type, ...parts } = schema._zod.def as z.core.$ZodTypeDef & Parts
  if (NOT_IN_JSON.has(type) && parts.coerce !== true) {
    const instead = type === 'date' ? ': take a text, such as z.iso.datetime()' : ''
    return `${path} is a ${type}, which JSON does not have, so that no model can send one${instead}`
  }
  if (parts.shape) {
    const found = Object.entries(parts.shape).map(([name, member]) => unsendable(member, `${path}.${name}`, seen))
    return found.find((problem) => problem !== undefined)
  }
  const inner = parts.element ?? parts.innerType
  return inner && unsendable(inner, parts.element ? `${path}[]` : path, seen)
}

type Parts = {
  readonly coerce?: boolean
  readonly shape?: Readonly<Record<string, z.core.$ZodType>>
  readonly element?: z.core.$ZodType
  readonly innerType?: z.core.$ZodType
}

/** What is wrong with a schema of zod 3, and what helps. */
export const OLD_ZOD = 'is a schema of zod 3 and must be one of zod 4: npm install zod@4, and import { z } from "zod"'

export function isOldZod(value: unknown): boolean {
  return typeof value === 'object' && value !== null && '_def' in value && !('_zod' in value)
}

/** The schema in the strict form, when it already keeps its rules but for objects that are not said to be closed. */
export function strictSchema(schema: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> | undefined {
  const closed = { ...schema, additionalProperties: false }
  return schema['additionalProperties'] !== true && isStrict(closed) ? closed : undefined
}

type Schema = Readonly<Record<string, unknown>>

/**
 * Whether providers take the schema for a strict function (Responses API, structured outputs): every property required,
 * every object closed, every value typed, and no keyword besides those that their decoders can enforce.
 */
export function isStrict(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return false
  const node = schema as Schema
  return (
    TYPING.some((keyword) => keyword in node) &&
    Object.entries(node).every(
      ([keyword, value]) => Object.hasOwn(KEYWORDS, keyword) && KEYWORDS[keyword]!(value, node),
    )
  )
}

const TYPING = ['type', 'anyOf', 'enum', 'const', '$ref']
const FORMATS = ['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid']
const LOOKAROUND = /\(\?<?[=!]/

const anything = (): boolean => true
const listOfStrict = (value: unknown): boolean => Array.isArray(value) && value.every(isStrict)
const eachStrict = (value: unknown): boolean => Object.values(value as Schema).every(isStrict)

const KEYWORDS: Readonly<Record<string, (value: unknown, node: Schema) => boolean>> = {
  type: anything,
  description: anything,
  title: anything,
  enum: anything,
  const: anything,
  $ref: anything,
  required: anything,
  minimum: anything,
  maximum: anything,
  exclusiveMinimum: anything,
  exclusiveMaximum: anything,
  multipleOf: anything,
  minItems: anything,
  maxItems: anything,
  format: (format) => FORMATS.includes(String(format)),
  pattern: (pattern) => !LOOKAROUND.test(String(pattern)),
  // Objects whose schema does not say are closed by the SDK.
  additionalProperties: (value) => value === false,
  properties: (properties, { required = [] }) =>
    Object.keys(properties as Schema).every((name) => (required as string[]).includes(name)) && eachStrict(properties),
  $defs: eachStrict,
  definitions: eachStrict,
  items: isStrict,
  anyOf: listOfStrict,
}
