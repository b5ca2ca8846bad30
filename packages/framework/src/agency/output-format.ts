import { isFields } from '@bureau/protocol'
import { z } from 'zod'
import { isTooDeep } from './nesting.ts'
import { isOldZod, isStrict, OLD_ZOD, unsendable } from './tool-schema.ts'

/** What an agent's final output is: text, a zod object, or a JSON Schema. */
export type OutputType = 'text' | z.ZodObject | JsonSchemaOutput

/** What an answer of this type is once it is parsed. */
export type Parsed<Type extends OutputType> = Type extends 'text'
  ? string
  : Type extends z.ZodObject
    ? z.output<Type>
    : unknown

/** A structured output described by a JSON Schema; what comes back is not checked against it here. */
export type JsonSchemaOutput = {
  readonly type: 'json_schema'
  readonly name: string
  readonly strict: boolean
  readonly schema: Readonly<Record<string, unknown>>
}

/** The form that a model's answer must have, on the wire. */
export type OutputFormat = JsonSchemaOutput | { readonly type: 'json_object' }

const formats = new WeakMap<object, JsonSchemaOutput>()

/** The format that the model is asked for; undefined for text. Made once for each output type. */
export function outputFormatOf(outputType: OutputType): JsonSchemaOutput | undefined {
  if (outputType === 'text') return undefined
  const made = formats.get(outputType) ?? makeFormat(outputType)
  formats.set(outputType, made)
  return made
}

function makeFormat(outputType: Exclude<OutputType, 'text'>): JsonSchemaOutput {
  if (!(outputType instanceof z.ZodType)) return outputType
  const made = z.toJSONSchema(outputType, { target: 'draft-7', io: 'input', unrepresentable: 'any' })
  const { $schema: _schema, ...schema } = made
  const closed = closedSchema(schema)
  const strict = isStrict(closed)
  return { type: 'json_schema', name: 'output', strict, schema: strict ? closed : schema }
}

/** Providers take a strict format only when every object is closed and has all its members required. */
function closedSchema(node: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const entries = Object.entries(node).map(([keyword, value]): [string, unknown] => {
    if (NAMED_SCHEMAS.has(keyword) && isFields(value)) {
      return [keyword, Object.fromEntries(Object.entries(value).map(([name, member]) => [name, strictly(member)]))]
    }
    return [keyword, Array.isArray(value) ? value.map(strictly) : strictly(value)]
  })
  const closed = Object.fromEntries(entries)
  if (!isFields(closed['properties'])) return closed
  return { ...closed, required: Object.keys(closed['properties']), additionalProperties: false }
}

const NAMED_SCHEMAS = new Set(['properties', '$defs', 'definitions'])

function strictly(value: unknown): unknown {
  return isFields(value) ? closedSchema(value) : value
}

/**
 * The value that an answer in words stands for.
 *
 * @throws ZodError, SyntaxError the words do not fit the output type, or are nested too deep.
 */
export async function parseOutput(outputType: OutputType, text: string): Promise<unknown> {
  if (outputType === 'text') return text
  const parsed: unknown = JSON.parse(text)
  if (isTooDeep(parsed)) throw new SyntaxError('the answer is nested too deep')
  return outputType instanceof z.ZodType ? outputType.parseAsync(parsed) : parsed
}

/** What is wrong with what an agent is to answer with. */
export function problemOfOutputType(outputType: unknown): string | undefined {
  if (outputType === undefined || outputType === 'text') return undefined
  if (outputType instanceof z.ZodType) return unsendable(outputType)
  if (isFields(outputType) && outputType['type'] === 'json_schema' && isFields(outputType['schema'])) return undefined
  return isOldZod(outputType) ? OLD_ZOD : 'is "text", a zod object, or { type: "json_schema", … }'
}
