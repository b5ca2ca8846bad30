import { createRequire } from 'node:module'
import type { ErrorObject, ValidateFunction } from 'ajv'
import { ConfigError, isFields, type ValidationEntry } from '@bureau/protocol'
import type { z } from 'zod'
import { validationEntries, WRONG_TYPES } from '../http/validation-entries.ts'
import { InvalidBody, notAnObject } from '../http/invalid-body.ts'

type Issue = z.core.$ZodIssue

/**
 * The input of a tool as an object; a request without a body is one without members.
 *
 * @throws InvalidBody the body is something else, or was not sent as JSON.
 */
export function toolInputOf(body: unknown): Record<string, unknown> {
  if (body === undefined) return {}
  if (isFields(body)) return body
  throw notAnObject(body)
}

/** What is wrong with an input, one entry for each member. */
export function inputEntries(issues: readonly Issue[], input: unknown): ValidationEntry[] {
  // One level down, because some members of an agency's request have entries of their own and tools may use any names.
  const nested = issues.flatMap(eachKey).map((issue) => ({ ...issue, path: ['input', ...issue.path] }))
  return validationEntries(nested, { input }).map((entry) => ({ ...entry, loc: ['body', ...entry.loc.slice(2)] }))
}

/** Unknown members come as one issue of the object that holds them. */
function eachKey(issue: Issue): Issue[] {
  if (issue.code !== 'unrecognized_keys') return [issue]
  return issue.keys.map((key) => ({ ...issue, keys: [key], path: [...issue.path, key] }))
}

type InputCheck = (input: Record<string, unknown>) => void

/**
 * Checks input by a JSON Schema and fills in its defaults, for tools that have nothing else.
 *
 * @throws ConfigError the schema is not valid.
 */
export function schemaCheck(tool: string, schema: object): InputCheck {
  const { $schema: _, ...rules } = schema as Record<string, unknown>
  const first = compile(tool, rules, { allErrors: false })
  const all = compile(tool, rules, { allErrors: true })
  return (input) => {
    if (first(input)) return
    // Of input that is long, everything that is wrong could be more than there is memory for.
    const { errors } = JSON.stringify(input).length <= MAX_EXPLAINED_LENGTH && !all(input) ? all : first
    throw new InvalidBody((errors ?? []).map((error) => entryOf(error, input)))
  }
}

const MAX_EXPLAINED_LENGTH = 65_536

/** Loaded only for such tools: a tool of our own has a zod schema. */
const load = createRequire(import.meta.url)

function compile(tool: string, rules: object, { allErrors }: { allErrors: boolean }): ValidateFunction {
  const { Ajv } = load('ajv') as typeof import('ajv')
  try {
    return new Ajv({
      allErrors,
      strict: false,
      useDefaults: true,
      validateFormats: false,
      logger: false,
    }).compile(rules)
  } catch (cause) {
    throw new ConfigError(`tools: the parameters of "${tool}" are not a valid JSON Schema.`, { cause })
  }
}

function entryOf(
  { instancePath, keyword, params, message = 'not valid' }: ErrorObject,
  input: unknown,
): ValidationEntry {
  const { path, value } = follow(input, instancePath)
  const loc = ['body', ...path]
  switch (keyword) {
    case 'required':
      return { type: 'missing', loc: [...loc, String(params['missingProperty'])], msg: 'Field required', input: value }
    case 'additionalProperties': {
      const key = String(params['additionalProperty'])
      const extra = (value as Record<string, unknown>)[key]
      return {
        type: 'extra_forbidden',
        loc: [...loc, key],
        msg: `Extra inputs are not permitted: ${key}`,
        input: extra,
      }
    }
    case 'type':
      return {
        loc,
        input: value,
        ...(WRONG_TYPES[String(params['type'])] ?? { type: 'type_error', msg: `Input ${message}` }),
      }
    case 'enum':
    case 'const':
      return {
        type: 'literal_error',
        loc,
        msg: `Input ${message}`,
        input: value,
        ctx: { expected: expectedOf(params) },
      }
    case 'anyOf':
    case 'oneOf':
      return { type: 'union_error', loc, msg: 'Input should be of one of the accepted types', input: value }
    default:
      return { type: 'value_error', loc, msg: `Input ${message}`, input: value }
  }
}

function expectedOf(params: ErrorObject['params']): string {
  const values = (params['allowedValues'] ?? [params['allowedValue']]) as unknown[]
  return values.map((value) => `'${String(value)}'`).join(', ')
}

/** A JSON pointer (RFC 6901), its steps into lists as numbers. */
function follow(input: unknown, pointer: string): { path: (string | number)[]; value: unknown } {
  const path: (string | number)[] = []
  let value = input
  for (const step of pointer.split('/').slice(1)) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
    path.push(Array.isArray(value) ? Number(key) : key)
    value = (value as Record<string, unknown>)[key]
  }
  return { path, value }
}
