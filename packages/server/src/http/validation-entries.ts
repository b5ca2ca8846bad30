import type { ValidationEntry } from '@bureau/protocol'
import type { z } from 'zod'

type Issue = z.core.$ZodIssue

/** Nobody reads more, and each entry repeats what was sent. */
export const MAX_ENTRIES = 100

/** Names of the members of unions, in order, as existing clients know them. */
const UNION_MEMBERS: Readonly<Record<PropertyKey, readonly string[]>> = {
  message: ['str', 'list[dict[str,any]]'],
  file_urls: ['dict[str,str]', 'list[str]'],
}

/** What is wrong with a body, in the entries that clients of the Python system read (422, `detail`). */
export function validationEntries(issues: readonly Issue[], body: unknown): ValidationEntry[] {
  return issues.flatMap((issue) => entriesOf(issue, [], body))
}

function entriesOf(issue: Issue, prefix: readonly PropertyKey[], body: unknown): ValidationEntry[] {
  const path = [...prefix, ...issue.path] as (string | number)[]
  const input = valueAt(body, path)
  const loc = ['body', ...path]
  const members = path.length === 1 ? UNION_MEMBERS[path[0]!] : undefined
  if (issue.code === 'invalid_union' && members && input !== undefined) {
    return issue.errors.flatMap((member, index) =>
      member.slice(0, MAX_ENTRIES).flatMap((inner) =>
        entriesOf(inner, path, body).map((entry) => ({
          ...entry,
          loc: [...entry.loc.slice(0, 2), members[index]!, ...entry.loc.slice(2)],
        })),
      ),
    )
  }
  if (input === undefined)
    return [{ type: 'missing', loc, msg: 'Field required', input: valueAt(body, path.slice(0, -1)) }]
  return [{ loc, input, ...describe(issue) }]
}

/** What was expected, by its name in zod or JSON Schema. */
export const WRONG_TYPES: Readonly<Record<string, { type: string; msg: string }>> = {
  string: { type: 'string_type', msg: 'Input should be a valid string' },
  array: { type: 'list_type', msg: 'Input should be a valid list' },
  object: { type: 'dict_type', msg: 'Input should be a valid dictionary' },
  record: { type: 'dict_type', msg: 'Input should be a valid dictionary' },
  boolean: { type: 'bool_type', msg: 'Input should be a valid boolean' },
  number: { type: 'float_type', msg: 'Input should be a valid number' },
  int: { type: 'int_type', msg: 'Input should be a valid integer' },
  integer: { type: 'int_type', msg: 'Input should be a valid integer' },
}

function describe(issue: Issue): { type: string; msg: string; ctx?: Record<string, unknown> } {
  switch (issue.code) {
    case 'invalid_type':
      return WRONG_TYPES[issue.expected] ?? { type: 'type_error', msg: issue.message }
    case 'invalid_union':
      return { type: 'union_error', msg: 'Input should be of one of the accepted types' }
    case 'invalid_value': {
      const values = issue.values.map((value) => `'${String(value)}'`)
      const expected = values.length > 1 ? `${values.slice(0, -1).join(', ')} or ${values.at(-1)}` : values.join('')
      return { type: 'literal_error', msg: `Input should be ${expected}`, ctx: { expected } }
    }
    case 'unrecognized_keys':
      return { type: 'extra_forbidden', msg: `Extra inputs are not permitted: ${issue.keys.join(', ')}` }
    case 'custom':
      return { type: 'value_error', msg: `Value error, ${issue.message}`, ctx: { error: {} } }
    default:
      return { type: 'value_error', msg: issue.message }
  }
}

function valueAt(body: unknown, path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>((value, key) => {
    if (typeof value !== 'object' || value === null) return undefined
    return (value as Record<string | number, unknown>)[key]
  }, body)
}
